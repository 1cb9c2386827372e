"""The device of a run: what it is, how fast it is, and how its time and memory are read."""
