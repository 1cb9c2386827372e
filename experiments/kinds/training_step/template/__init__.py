"""One update from the whole batch, or from two halves of it."""
