"""Exporter of evidence packs."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from stenolog.adapters.conversation.queries.exporters import Exporter

from .pack import write_pack

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation


def _write(conversation: Conversation, stream: IO[str], _agent: str) -> None:
    write_pack(conversation, stream)


TO_EVIDENCE = Exporter("evidence", "evidence that anybody can check", _write, write_pack=write_pack)
