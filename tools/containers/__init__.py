"""Images of the profiles: their text, rendered from the registry, and building, proving, listing and pruning them."""
