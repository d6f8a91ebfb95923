"""Checks of a whole log: chains, history, search index, receipts. What passes is restored, or salvaged."""
