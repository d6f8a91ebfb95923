"""Requests one after another: what does not change from one to the next is kept, and only the new is read."""
