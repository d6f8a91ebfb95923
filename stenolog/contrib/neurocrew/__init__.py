"""NeuroCrew Lab: one chat in each file."""
