"""Mixed-precision backward: the format of each stage, what gets lost, and what the loss scaler does about it."""
