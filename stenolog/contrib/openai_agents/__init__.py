"""Importer of the sessions that the OpenAI Agents SDK keeps in SQLite databases."""
