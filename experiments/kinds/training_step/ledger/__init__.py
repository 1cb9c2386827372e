"""The bytes and operations of a training step, reckoned before it runs."""
