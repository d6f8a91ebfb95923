"""Requests one after another: only what is new is read."""
