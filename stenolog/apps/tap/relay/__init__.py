"""Relay of a tap: the process that forwards bytes, and adds copies of them to the journal."""
