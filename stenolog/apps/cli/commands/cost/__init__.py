"""Commands that count calls, tokens and costs."""
