"""The log and its conversations, on a store: append, read, search, erase, verify."""
