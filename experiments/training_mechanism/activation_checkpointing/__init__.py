"""Activation checkpointing (Part 02 · 19): keep a layer's inside, or compute it again."""
