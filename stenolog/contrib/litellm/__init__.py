"""Logs of LiteLLM."""
