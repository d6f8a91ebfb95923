"""Checks of a whole log: chains, history, search index, receipts. A backup that passes is restored."""
