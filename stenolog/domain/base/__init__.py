"""Base of values: frozen dataclasses, errors that name their fields, and registries."""
