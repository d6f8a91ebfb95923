"""Requests of a conversation: built, kept in memory, priced, and counted over time."""
