"""Plugins: how they are found and loaded, and registries whose values are imported at their first use."""
