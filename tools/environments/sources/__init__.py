"""Where packages come from: the indexes in force, and which build of torch is taken."""
