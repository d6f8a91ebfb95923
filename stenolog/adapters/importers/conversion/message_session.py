"""Base of converters of sessions whose messages have the form of a provider's API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import sha256
from itertools import groupby
from typing import Any

from stenolog.adapters.importers.door.json_lines import JsonObject
from stenolog.domain.parts import AssistantPart, ReasoningPart, TextPart, UserPart
from stenolog.domain.values import Usage
from stenolog.projections.formats import reader_of
from stenolog.projections.formats.reading import Item, Reply, Result, Spoken
from stenolog.projections.messages.json_fields import Blobs, compact_json

from .session_converter import SessionConverter

NEVER = re.compile(r"(?!)")


class MessageSession(SessionConverter):
    """A session whose messages the reader of an API's format reads.

    `api` is that format. `wrapped` matches the texts that the program adds to a person's message.
    `is_rewritten`: the program may change or remove messages in a file.
    """

    api: str
    wrapped: re.Pattern[str] = NEVER
    is_rewritten = False
    _edits = ""
    """A hash of the messages since the first that differs from the log's."""

    @staticmethod
    def only_tags(*names: str) -> re.Pattern[str]:
        """Return a pattern of texts that are complete elements of these names, and nothing else."""
        return re.compile(
            rf"\s*+(?:<(?P<name>{'|'.join(names)})(?:\s[^<>]*)?>(?>.*?</(?P=name)>)\s*+)++\Z", re.DOTALL
        )

    def write_message(
        self,
        id: str,
        message: JsonObject,
        *,
        agent: str = "",
        provider: str = "",
        model: str = "",
        usage: Usage | None = None,
        finish_reason: str = "",
        is_person: bool = True,
    ) -> str:
        """Write what a message says: words, an answer, or results; return the id that it has in the log.

        `provider` made the answer's thoughts, by default the API's own. Words are the program's unless
        `is_person`.
        """
        reader, blobs = reader_of(self.api), Blobs()
        by = provider or reader.provider
        read = [*reader.message(message, model, blobs)]
        given = ((key, parts) for key, _, parts in self._entries(id, read, by) if parts)
        id = self.id_after_edits(id, message, given)
        for key, item, parts in self._entries(id, read, by):
            if isinstance(item, Reply) and parts:
                self.setup.card(agent or self.main, **{"model": model, "provider": by} if model else {})
                self.write_whole(
                    id,
                    parts,
                    agent=agent,
                    model=model,
                    usage=usage,
                    finish_reason=finish_reason,
                    cause=self.writer.last_question(agent or self.main),
                )
            elif isinstance(item, Result):
                self.write_result(
                    key,
                    item.call_id,
                    parts,
                    message=id,
                    agent=agent,
                    blobs=blobs,
                    is_error=item.is_error,
                )
            elif isinstance(item, Spoken) and parts:
                is_said = is_person and item.role == "user" and not self.is_added(parts[0])
                self.write_user(
                    key, parts, "person" if is_said else "system", message=id, agent=agent, blobs=blobs
                )
            else:
                self.ignored["empty message"] += 1
        return id

    def id_after_edits(
        self, id: str, message: JsonObject, entries: Iterable[tuple[str, tuple[Any, ...]]]
    ) -> str:
        """Return a message's id, with a hash from the first on that differs from the log's.

        One without an id that begins the file may be of another file, so it keeps its number.
        """
        said = self.writer.log.said
        may_differ = self.is_rewritten and bool(self.positions or not id.startswith("#"))
        if not self._edits and not (may_differ and any(said.get(k, hash(p)) != hash(p) for k, p in entries)):
            return id
        content = self._edits + compact_json(message)
        self._edits = sha256(content.encode(errors="replace")).hexdigest()[:16]
        return f"{id}~{self._edits}"

    def _entries(self, id: str, read: list[Item], by: str) -> Iterator[tuple[str, Item, tuple[Any, ...]]]:
        """Yield what becomes an entry of its own, with the entry's id and parts."""
        number = 0
        for item in read:
            if isinstance(item, Reply):
                yield id, item, tuple(_made_by(part, by) for part in item.parts)
                continue
            is_said = isinstance(item, Spoken) and item.parts
            for parts in self._runs(item.parts) if is_said else [item.parts]:
                yield _key(id, number), item, parts
                number += bool(parts or isinstance(item, Result))

    def _runs(self, parts: tuple[UserPart, ...]) -> Iterator[tuple[UserPart, ...]]:
        return (tuple(run) for _, run in groupby(parts, self.is_added))

    def is_added(self, part: UserPart) -> bool:
        """Return whether the program added a part to a person's message."""
        return isinstance(part, TextPart) and self.wrapped.match(part.text) is not None


def _key(id: str, number: int) -> str:
    return f"{id}:{number}" if number else id


def _made_by(part: AssistantPart, provider: str) -> AssistantPart:
    return replace(part, provider=provider) if isinstance(part, ReasoningPart) else part
