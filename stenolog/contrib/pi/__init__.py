"""Sessions of the coding agent pi, and of OpenClaw, which is built on it."""
