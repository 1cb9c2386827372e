"""How the processes of one task live and die: one forked process, or ranks that meet on loopback."""
