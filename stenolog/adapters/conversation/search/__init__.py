"""Full-text search: what was said in any conversation, by its words. A projection, kept beside the log."""
