"""Prompt caches: what two prompts share, what calls read of it, and what prevented more."""
