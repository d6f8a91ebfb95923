"""The formats that ship with stenolog: Claude Code, Codex, OpenAI chat messages and stenolog's own export."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING

from stenolog.adapters.providers.json_fields import as_dict, as_str
from stenolog.adapters.queries.exporters import Exporter
from stenolog.projections import transcript

from .claude import stream as claude_stream
from .claude.records import ClaudeCode
from .codex import Codex
from .formats import Importer, LineFormat
from .json_lines import JsonObject
from .jsonl import export_jsonl
from .openai import messages as openai_files
from .openai.export import export_openai

if TYPE_CHECKING:
    from stenolog.adapters.log import Conversation


def _claude_session(record: JsonObject, _has_begun: bool) -> str:
    return as_str(record.get("sessionId")) or as_str(record.get("session_id"))


def _codex_session(record: JsonObject, has_begun: bool) -> str:
    """Return the session of a rollout: its first one, even if the others' history was copied."""
    payload = as_dict(record.get("payload")) if record.get("type") == "session_meta" else {}
    return "" if has_begun else as_str(payload.get("id")) or as_str(payload.get("session_id"))


def _write_jsonl(conversation: Conversation, stream: IO[str], _agent: str) -> None:
    export_jsonl(conversation, stream)


def _write_openai(conversation: Conversation, stream: IO[str], agent: str) -> None:
    stream.write(f"{json.dumps(export_openai(conversation, agent), ensure_ascii=False, indent=2)}\n")


def _write_markdown(conversation: Conversation, stream: IO[str], _agent: str) -> None:
    for line in transcript.markdown(_title(conversation), conversation.timeline()):
        stream.write(f"{line}\n")


def _write_html(conversation: Conversation, stream: IO[str], _agent: str) -> None:
    for piece in transcript.html(_title(conversation), conversation.timeline()):
        stream.write(piece)


def _title(conversation: Conversation) -> str:
    return conversation.settings().title or conversation.name


_CLAUDE = LineFormat(ClaudeCode, _claude_session)
CLAUDE_CODE = Importer("claude-code", "a Claude Code session", lines=_CLAUDE)
CLAUDE_STREAM = Importer("claude-stream", "a Claude Code stream", claude_stream.read, _CLAUDE)
CODEX = Importer("codex", "a Codex rollout", lines=LineFormat(Codex, _codex_session))
OPENAI_CHAT = Importer("openai-chat", "OpenAI chat messages", openai_files.read)
STENOLOG = Importer("stenolog", "a stenolog export")
"""Its lines are written as they are, past every converter: see `jsonl.import_stream`."""
TO_JSONL = Exporter("jsonl", "stenolog's own JSON Lines", _write_jsonl)
TO_OPENAI = Exporter("openai", "OpenAI chat messages", _write_openai, of_one_agent=True)
TO_MARKDOWN = Exporter("markdown", "a Markdown document to read", _write_markdown)
TO_HTML = Exporter("html", "one HTML page to read", _write_html)
