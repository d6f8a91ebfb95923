"""What answers a request: a provider's model through its own SDK, a command, a script, a recording."""
