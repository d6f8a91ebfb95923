"""Moments: one request of an agent with all that it takes to build it again, to be used elsewhere."""
