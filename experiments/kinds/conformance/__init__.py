"""The kind `conformance`: one candidate is one check of hand-written code against a framework, or one planted fault."""
