"""Upkeep of an agent's context: summaries, memories, recalled passages and scores."""
