"""Where weights and tokens come from: the hub, a local folder, or a configuration registered here."""
