"""An all-reduce whole, or in two pieces."""
