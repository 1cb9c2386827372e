"""The kind `collective`: one repetition is one collective operation over N ranks, at each size of a ladder."""
