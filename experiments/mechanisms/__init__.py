"""Hand-written training mechanisms, each beside its maths. They import torch and nothing of this project."""
