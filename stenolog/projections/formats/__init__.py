"""Formats: all that is known of each provider's API, a package each."""
