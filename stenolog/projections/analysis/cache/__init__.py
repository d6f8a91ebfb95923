"""Prompt caches: what two prompts begin with, what each call read of it, and what kept it from more."""
