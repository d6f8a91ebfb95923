"""The statements on the tables of a log in PostgreSQL."""
