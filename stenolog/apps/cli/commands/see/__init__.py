"""Commands that show conversations, entries and outputs."""
