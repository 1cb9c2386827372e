"""Gradient accumulation (Part 02 · 11): one update from several micro-batches, each with its own backward."""
