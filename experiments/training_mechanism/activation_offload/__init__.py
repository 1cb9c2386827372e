"""Activation offload (Part 02 · 42): keep saved tensors on the card, or move them to the host and back."""
