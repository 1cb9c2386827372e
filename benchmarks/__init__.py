"""Paired timings of the command lines against what a user would run instead: `nox -s bench`."""
