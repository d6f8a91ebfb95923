"""Codex CLI rollouts."""
