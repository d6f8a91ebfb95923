"""Evidence packs of a conversation: written for readers without the log, and imported again."""
