"""Descriptions of tools for a model, from functions and from the dictionaries that providers take."""
