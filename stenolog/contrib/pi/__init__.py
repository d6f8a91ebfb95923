"""Sessions of pi and OpenClaw."""
