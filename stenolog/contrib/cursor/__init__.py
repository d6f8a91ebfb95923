"""Conversations of the editor Cursor, and of its agent."""
