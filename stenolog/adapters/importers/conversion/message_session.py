"""Base of converters of sessions whose messages have the form of a provider's API."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from stenolog.adapters.importers.door.json_lines import JsonObject
from stenolog.domain.parts import AssistantPart, ReasoningPart, TextPart, UserPart
from stenolog.domain.values import Usage
from stenolog.projections.formats import reader_of
from stenolog.projections.formats.reading import Reply, Result, Spoken
from stenolog.projections.messages.json_fields import Blobs

from .session_converter import SessionConverter

NEVER = re.compile(r"(?!)")


class MessageSession(SessionConverter):
    """A session whose messages the reader of an API's format reads.

    `api` is that format. `wrapped` matches the texts that the program adds to a person's message.
    """

    api: str
    wrapped: re.Pattern[str] = NEVER

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
    ) -> None:
        """Write what a message says: words, an answer, or results.

        `provider` made the answer's thoughts, by default the API's own. Words are the program's unless
        `is_person`.
        """
        reader, blobs = reader_of(self.api), Blobs()
        number = 0
        for item in reader.message(message, model, blobs):
            if isinstance(item, Reply) and item.parts:
                by = provider or reader.provider
                self.setup.card(agent or self.main, **{"model": model, "provider": by} if model else {})
                self.write_whole(
                    id,
                    [_made_by(part, by) for part in item.parts],
                    agent=agent,
                    model=model,
                    usage=usage,
                    finish_reason=finish_reason,
                    cause=self.writer.last_question(agent or self.main),
                )
            elif isinstance(item, Result):
                key, number = _key(id, number), number + 1
                self.write_result(
                    key,
                    item.call_id,
                    item.parts,
                    message=id,
                    agent=agent,
                    blobs=blobs,
                    is_error=item.is_error,
                )
            elif isinstance(item, Spoken) and item.parts:
                for is_added, parts in self._runs(item.parts):
                    key, number = _key(id, number), number + 1
                    is_said = is_person and item.role == "user" and not is_added
                    self.write_user(
                        key, parts, "person" if is_said else "system", message=id, agent=agent, blobs=blobs
                    )
            else:
                self.ignored["empty message"] += 1

    def _runs(self, parts: tuple[UserPart, ...]) -> Iterator[tuple[bool, list[UserPart]]]:
        for is_added, run in groupby(parts, self._is_added):
            yield is_added, list(run)

    def _is_added(self, part: UserPart) -> bool:
        return isinstance(part, TextPart) and self.wrapped.match(part.text) is not None


def _key(id: str, number: int) -> str:
    return f"{id}:{number}" if number else id


def _made_by(part: AssistantPart, provider: str) -> AssistantPart:
    return replace(part, provider=provider) if isinstance(part, ReasoningPart) else part
