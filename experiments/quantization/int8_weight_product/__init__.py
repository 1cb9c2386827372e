"""Int8 weights: a product from a quarter of the weight's bytes."""
