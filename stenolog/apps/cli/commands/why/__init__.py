"""Commands that explain requests, and where an entry came from and went."""
