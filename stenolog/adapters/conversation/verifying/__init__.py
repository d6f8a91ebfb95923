"""Checks of a whole log: chains, history, search index, receipts; restore and salvage."""
