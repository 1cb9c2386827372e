"""The command line of the measuring side: one module per command, each imported only when it is asked for."""
