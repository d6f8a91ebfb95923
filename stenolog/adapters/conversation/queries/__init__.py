"""Queries on a conversation: folds, requests, outputs and forks, with argument checks and caches."""
