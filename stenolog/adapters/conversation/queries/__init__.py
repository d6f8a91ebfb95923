"""Queries on a conversation: folds, requests, outputs, forks, with argument checks and caches."""
