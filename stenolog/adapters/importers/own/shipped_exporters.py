"""Exporters that ship with stenolog."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING

from stenolog.adapters.conversation.queries.exporters import Exporter
from stenolog.adapters.importers.openai.export import export_openai
from stenolog.projections.moments.as_curl import as_curl
from stenolog.projections.moments.as_json import as_json
from stenolog.projections.moments.as_pytest import as_pytest
from stenolog.projections.moments.as_python import as_python
from stenolog.projections.views import transcript

from .jsonl import export_jsonl

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation


def _write_jsonl(conversation: Conversation, stream: IO[str], _agent: str) -> None:
    export_jsonl(conversation, stream)


def _write_openai(conversation: Conversation, stream: IO[str], agent: str) -> None:
    stream.write(f"{json.dumps(export_openai(conversation, agent), ensure_ascii=False, indent=2)}\n")


def _write_markdown(conversation: Conversation, stream: IO[str], _agent: str) -> None:
    for line in transcript.markdown(_title(conversation), conversation.timeline()):
        stream.write(f"{line}\n")


def _title(conversation: Conversation) -> str:
    return conversation.settings().title or conversation.name


TO_JSONL = Exporter("jsonl", "stenolog's own JSON Lines", _write_jsonl)
TO_OPENAI = Exporter("openai", "OpenAI chat messages", _write_openai, of_one_agent=True)
TO_MARKDOWN = Exporter("markdown", "a Markdown document to read", _write_markdown)
TO_JSON = Exporter("json", "the JSON of a request, as it is sent", write_moment=as_json)
TO_CURL = Exporter("curl", "a call of curl with a request", write_moment=as_curl)
TO_PYTHON = Exporter("python", "a call of the provider's SDK with a request", write_moment=as_python)
TO_PYTEST = Exporter("pytest", "a test that builds a request again", write_moment=as_pytest)
