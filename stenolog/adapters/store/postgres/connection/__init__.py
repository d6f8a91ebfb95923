"""Connections to a database in PostgreSQL: its address, its pool, its tables and its news."""
