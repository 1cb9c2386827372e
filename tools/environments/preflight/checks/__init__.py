"""What a preflight asks, one module per family, each pure: from a profile and the gathered facts to checks."""
