"""Moments: one request of an agent, with what it takes to build it again, written for use elsewhere."""
