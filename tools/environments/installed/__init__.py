"""What an environment holds: its files and packages, its stamp, registration, kernels and lock."""
