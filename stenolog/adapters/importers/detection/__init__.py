"""Formats and their importers, and which of them a file is of."""
