"""Sessions of the coding agents Kimi Code and Kimi CLI."""
