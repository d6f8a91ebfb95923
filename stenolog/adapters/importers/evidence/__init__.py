"""Evidence packs of a conversation: written for somebody without the log, and imported again."""
