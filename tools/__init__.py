"""The environment side of the lab: profiles, installer, preflight, registration, containers."""
