"""Importer of message histories of pydantic-ai that were written as JSON."""
