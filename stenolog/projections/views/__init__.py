"""Views of the log, made of entries: timeline, lines, pairs of calls and results, usage, overview."""
