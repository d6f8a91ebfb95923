"""Full-text search of all conversations: a projection, kept beside the log."""
