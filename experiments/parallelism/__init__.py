"""The parallelism pages: what it costs to let several ranks work together. One folder each."""
