"""OpenAI chat messages, in and out."""
