"""Providers' JSON, errors and prices, for models, agents, importers and frameworks."""
