"""Writing of converted entries, and what the log remembers of earlier imports."""
