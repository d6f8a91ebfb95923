"""Prompt caches: what two prompts share, what each call read of it, and what prevented more."""
