"""The measuring side of the lab: harness, mechanisms, evidence, and the experiments themselves."""
