"""The JSON of providers, their errors and prices: for models, agents, importers and frameworks."""
