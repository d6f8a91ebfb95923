"""Disposable files beside the log: checkpoints and the search index."""
