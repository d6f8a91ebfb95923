"""The exporter of a conversation as one HTML page."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from stenolog.adapters.conversation.queries.exporters import Exporter

from .page import write_page

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation


def _write_html(conversation: Conversation, stream: IO[str], _agent: str) -> None:
    write_page(conversation, stream)


TO_HTML = Exporter(
    "html", "one HTML page that holds each agent's requests", _write_html, write_redacted=write_page
)
