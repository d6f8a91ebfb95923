"""Formats, their importers, and detection of a file's format."""
