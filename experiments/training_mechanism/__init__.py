"""The training-mechanism pages: precision, accumulation, checkpointing, offload. One folder each."""
