"""Checks of a whole log: chains, history, search index, receipts. The commands and tests use them."""
