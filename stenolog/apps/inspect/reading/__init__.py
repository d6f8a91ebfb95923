"""A conversation as people read it."""
