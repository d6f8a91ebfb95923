"""Commands that change a log."""
