"""The log and its conversations: appending, reading, searching, erasing and verifying, on a store."""
