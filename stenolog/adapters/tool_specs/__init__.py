"""Descriptions of tools for a model, from functions and providers' dictionaries."""
