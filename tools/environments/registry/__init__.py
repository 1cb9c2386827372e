"""The profiles: their file, its rules, and the requirement files that they name."""
