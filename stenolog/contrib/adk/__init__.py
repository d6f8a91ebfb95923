"""Importer of sessions and evaluation sets of Google's Agent Development Kit (ADK)."""
