"""The log under agent frameworks."""
