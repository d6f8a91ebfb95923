"""Five agents on one conversation, each with its own view of it; see README.md."""
