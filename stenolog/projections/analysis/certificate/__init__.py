"""Certificates: an agent was sent neither certain entries nor one that quotes them."""
