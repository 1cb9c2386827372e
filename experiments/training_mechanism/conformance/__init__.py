"""The checks and the mutants of each conformance page, one module a page."""
