"""What several experiments of this topic share."""
