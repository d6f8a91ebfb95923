"""CrewAgent's conversations: a folder with an `index.json`, and one `messages.json` for each."""

from .export import export_crewagent

__all__ = ["export_crewagent"]
