"""Sessions of opencode: its storage folder, its database, and its exports."""
