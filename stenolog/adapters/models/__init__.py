"""Models that answer requests: a provider's through its own SDK, a command, a script, a recording."""
