"""Claude Code session JSONL."""
