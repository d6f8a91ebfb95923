"""Commands that check a log."""
