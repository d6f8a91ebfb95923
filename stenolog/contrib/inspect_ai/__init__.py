"""Logs of inspect_ai: samples of an evaluation as conversations, and a conversation as a sample."""
