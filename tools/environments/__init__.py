"""From a profile to a stamped environment, on the standard library alone: this starts before anything is installed."""
