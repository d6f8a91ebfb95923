"""Converters of foreign records to events."""
