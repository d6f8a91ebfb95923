"""The loop on one conversation: poll, claim, do, append."""
