"""The conformance pages of this topic, one folder a page, and what several of them use in `shared/`."""
