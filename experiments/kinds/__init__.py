"""Kinds of measurement: what one repetition is, what it yields, and what has to hold before a number of it counts."""
