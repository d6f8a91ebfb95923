"""Stores of logs, in SQLite or PostgreSQL, by the `eventsourcing` library: only this package imports it."""
