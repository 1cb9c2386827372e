"""What this machine, its network and its cards are, and whether that is enough for a profile."""
