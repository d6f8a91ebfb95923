"""Runs compared by causes: which steps of two conversations are the same, and where they part."""
