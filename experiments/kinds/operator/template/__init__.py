"""A product whole, or as the sum of two half products."""
