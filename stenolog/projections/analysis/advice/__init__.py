"""Advice on bills: recorded calls, simulated under other settings of their provider's prompt cache."""
