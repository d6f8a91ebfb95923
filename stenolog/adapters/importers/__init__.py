"""Logs that other programs wrote, into the log; and conversations out of it again.

`import_file` takes a Claude Code session, a Codex rollout, OpenAI chat messages or an export of our own,
recognised by content; `import_files` takes many, `files_in` finds those in a folder. `export_jsonl` writes
what another database takes in with the same digests, `export_openai` the messages of one agent,
`export_crewagent` a folder that CrewAgent reads.
"""

from __future__ import annotations

from .crewagent.export import export_crewagent
from .detect import SUPPORTED, recognise
from .importer import Refused, import_file, import_files
from .json_lines import Skipped
from .jsonl import export_jsonl
from .openai.export import export_openai
from .report import Format, Imported, Report
from .walk import SUFFIXES, files_in, size_of

__all__ = [
    "SUFFIXES",
    "SUPPORTED",
    "Format",
    "Imported",
    "Refused",
    "Report",
    "Skipped",
    "export_crewagent",
    "export_jsonl",
    "export_openai",
    "files_in",
    "import_file",
    "import_files",
    "recognise",
    "size_of",
]
