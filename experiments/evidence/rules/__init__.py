"""Rules that compute, one folder a version: a record names the version it was made with, and that one verifies it."""
