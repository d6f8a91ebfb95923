"""The formats that ship with stenolog: command-line agents, OpenAI's chat messages, and its own export."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING

from stenolog.adapters.one_file.page import write_page
from stenolog.adapters.queries.exporters import Exporter
from stenolog.projections import transcript
from stenolog.projections.messages.json_fields import as_dict, as_str
from stenolog.projections.moments.as_curl import as_curl
from stenolog.projections.moments.as_json import as_json
from stenolog.projections.moments.as_pytest import as_pytest
from stenolog.projections.moments.as_python import as_python

from . import gemini_cli, qwen_code
from .claude import agent_notes
from .claude import stream as claude_stream
from .claude.records import ClaudeCode
from .codex import Codex
from .door import is_log
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
    write_page(conversation, stream)


def _title(conversation: Conversation) -> str:
    return conversation.settings().title or conversation.name


_CLAUDE = LineFormat(ClaudeCode, _claude_session, agent_notes.note_beside)
CLAUDE_CODE = Importer("claude-code", "a Claude Code session", lines=_CLAUDE)
CLAUDE_CODE_NOTE = Importer(
    "claude-code-note", CLAUDE_CODE.title, agent_notes.read, is_document=agent_notes.is_note
)
"""A note on a sub-agent: it is read with the sub-agent's file, so that there is nothing more to import."""
CLAUDE_STREAM = Importer("claude-stream", "a Claude Code stream", claude_stream.read, _CLAUDE)
CODEX = Importer("codex", "a Codex rollout", lines=LineFormat(Codex, _codex_session))
_GEMINI = LineFormat(gemini_cli.GeminiCli, gemini_cli.session_of)
GEMINI_CLI = Importer("gemini-cli", "a Gemini CLI chat", lines=_GEMINI, is_record=gemini_cli.is_chat)
GEMINI_CLI_JSON = Importer(
    "gemini-cli-json",
    "a Gemini CLI chat as one document",
    gemini_cli.read_chat,
    is_document=gemini_cli.is_whole_chat,
)
_QWEN = LineFormat(qwen_code.QwenCode, qwen_code.session_of)
QWEN_CODE = Importer("qwen-code", "a Qwen Code session", lines=_QWEN, is_record=qwen_code.is_session)
OPENAI_CHAT = Importer("openai-chat", "OpenAI chat messages", openai_files.read)
STENOLOG = Importer("stenolog", "a stenolog export")
"""Its lines are written as they are, past every converter: see `jsonl.import_stream`."""
STENOLOG_DB = Importer("stenolog-db", "a stenolog database", is_start=is_log, precedence=1)
"""Taken in as a whole: see `log_file.import_log`."""
TO_JSONL = Exporter("jsonl", "stenolog's own JSON Lines", _write_jsonl)
TO_OPENAI = Exporter("openai", "OpenAI chat messages", _write_openai, of_one_agent=True)
TO_MARKDOWN = Exporter("markdown", "a Markdown document to read", _write_markdown)
TO_HTML = Exporter(
    "html", "one HTML page that holds each agent's requests", _write_html, write_redacted=write_page
)
TO_JSON = Exporter("json", "the JSON of a request, as it is sent", write_moment=as_json)
TO_CURL = Exporter("curl", "a call of curl with a request", write_moment=as_curl)
TO_PYTHON = Exporter("python", "a call of the provider's SDK with a request", write_moment=as_python)
TO_PYTEST = Exporter("pytest", "a test that builds a request again", write_moment=as_pytest)
