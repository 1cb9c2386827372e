"""What an all-reduce costs: latency and bandwidth from a ladder of sizes, and a ring written by hand beside it."""
