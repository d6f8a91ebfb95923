"""The statements on the tables of an SQLite file, and the tables themselves."""
