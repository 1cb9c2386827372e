"""Version 2 of the statistics: the two levels of version 1, drawn with numpy from a stream that never changes."""
