"""What in the documents is derived: parts generated from registry and records, and links that must lead somewhere."""
