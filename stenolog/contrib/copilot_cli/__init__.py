"""Sessions of GitHub Copilot CLI."""
