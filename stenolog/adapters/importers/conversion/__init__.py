"""Converters of foreign records to events, for a log that may hold some of them."""
