"""Statements on an SQLite file's tables, and the tables."""
