"""Sessions of Factory's coding agent Droid."""
