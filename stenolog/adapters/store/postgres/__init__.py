"""The store of a log in PostgreSQL: many machines, one log."""
