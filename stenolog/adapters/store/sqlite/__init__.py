"""The store of a log in one SQLite file."""
