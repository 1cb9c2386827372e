"""The record, its schema, its grade, and what is drawn or tabled from it: what a measurement may be said to prove."""
