"""Holds the hand-written mechanisms against mature frameworks, and shows which check notices which fault."""
