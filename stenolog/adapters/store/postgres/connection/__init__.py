"""Connections to a database in PostgreSQL: address, pool, tables, notifications."""
