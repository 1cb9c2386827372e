"""The kind `operator`: one repetition is one call of one operation on given shapes, in one process."""
