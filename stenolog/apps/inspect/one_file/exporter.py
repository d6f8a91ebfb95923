"""The exporter of a conversation as one HTML page."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from stenolog.adapters.conversation.queries.exporters import Exporter
from stenolog.domain.errors import MissingExtraError

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation

    from .redaction import Redaction


def _write_redacted(conversation: Conversation, stream: IO[str], redaction: Redaction | None = None) -> None:
    try:
        from .page import write_page
    except ModuleNotFoundError as error:
        raise MissingExtraError("inspect", "jinja2") from error
    write_page(conversation, stream, redaction)


def _write_html(conversation: Conversation, stream: IO[str], _agent: str) -> None:
    _write_redacted(conversation, stream)


TO_HTML = Exporter(
    "html", "one HTML page to read, with each agent's requests", _write_html, write_redacted=_write_redacted
)
