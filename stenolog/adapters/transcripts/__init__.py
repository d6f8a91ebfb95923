"""Logs that other programs wrote, into the log; and conversations out of it again.

`import_file` takes a Claude Code session, a Codex rollout, OpenAI chat messages or an export of our own,
recognised by content. `export_jsonl` writes what another database takes in with the same digests,
`export_openai` the messages of one agent, `export_crewagent` a folder that CrewAgent reads.
"""

from __future__ import annotations

from .crewagent.export import export_crewagent
from .lines import Skipped
from .load import import_file
from .openai.export import export_openai
from .portable import export_jsonl
from .recognise import recognise
from .report import Format, Imported, Report

__all__ = [
    "Format",
    "Imported",
    "Report",
    "Skipped",
    "export_crewagent",
    "export_jsonl",
    "export_openai",
    "import_file",
    "recognise",
]
