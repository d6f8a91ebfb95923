"""Sessions of GitHub Copilot CLI."""

from .sessions import COPILOT_CLI

__all__ = ["COPILOT_CLI"]
