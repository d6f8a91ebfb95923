"""Writing what converters made into the log, and what the log remembers of earlier imports."""
