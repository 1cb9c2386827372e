"""The kind `training_step`: one repetition is one optimizer step of one causal language model in one process."""
