"""The four notebooks, and the little they need beside the package: check, run in a child, show what the record says."""
