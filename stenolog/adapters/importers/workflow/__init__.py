"""Rows of a table `conversation_messages`: what workflows keep in SQL."""
