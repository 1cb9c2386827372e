"""From a profile to an environment: the plan, its steps, its journal, and the layers of an image."""
