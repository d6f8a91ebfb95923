"""A chat room of command-line agents, at the terminal or on Telegram."""
