"""Requests of a conversation: built, cached, priced, and counted over time."""
