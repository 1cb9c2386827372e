"""Whether environment and machine are ready for a profile: facts, checks, report, and the validated GPU."""
