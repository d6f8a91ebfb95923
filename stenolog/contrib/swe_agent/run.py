"""The common parts of runs of SWE-agent and of mini-SWE-agent on their way into the log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stenolog import importers
from stenolog.events import AuthorKind, ErrorCategory
from stenolog.parts import AssistantPart, TextPart, UserPart

SYSTEM = "swe-agent"
_CATEGORIES: tuple[tuple[str, ErrorCategory], ...] = (
    ("cost|LimitsExceeded", "budget"),
    ("context", "context_length"),
    ("format", "invalid_response"),
    ("time", "timeout"),
    ("forfeit", "refused"),
)
"""The categories of failures, by words in the status that a run ends with."""


class AgentRun(importers.SessionConverter):
    """One run on its way into the log; `about` are facts on it for `meta`, `model` is on the agent's card."""

    system = SYSTEM

    def __init__(
        self, log: importers.ExistingLog, main: str, about: Mapping[str, Any], model: str = ""
    ) -> None:
        self.main = main
        super().__init__(log)
        self.setup.card(main, model=model)
        self.setup.about(SYSTEM, dict(about))

    def add_user_message(
        self,
        key: str,
        agent: str,
        content: importers.Json,
        kind: AuthorKind,
        *,
        meta: Mapping[str, Any] | None = None,
        in_context: bool = True,
    ) -> None:
        """Write a message of a person, or what came of the agent's command."""
        blobs: importers.Blobs = {}
        parts, agent = [*user_parts(content, blobs)], "" if agent == self.main else agent
        self.write_user(key, parts, kind, agent=agent, blobs=blobs, meta=_meta(meta), in_context=in_context)

    def add_answer(
        self,
        key: str,
        agent: str,
        parts: Sequence[AssistantPart],
        *,
        model: str = "",
        meta: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        """Write an answer, unless there is nothing in it."""
        if not parts:
            self.ignored["message without words"] += 1
            return
        if model:
            self.setup.card(agent, model=model)
        elif agent not in self.setup.cards:
            self.setup.card(agent)
        self.write_whole(key, parts, agent=agent, model=model, meta=_meta(meta), **fields)

    def add_result(
        self,
        key: str,
        agent: str,
        call_id: str,
        content: importers.Json,
        *,
        meta: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        """Write the result of a call."""
        blobs: importers.Blobs = {}
        parts = [*user_parts(content, blobs)]
        self.write_result(key, call_id, parts, agent=agent, blobs=blobs, meta=_meta(meta), **fields)

    def add_failure(self, key: str, status: str, message: str = "") -> None:
        """Write that a run ended with a failure."""
        text = message or status
        found = (category for pattern, category in _CATEGORIES if re.search(pattern, status, re.IGNORECASE))
        category = next(found, importers.error_category(f"{status} {text}"))
        wording = text if status in text else f"{status}: {text}"
        self.write_error(key, wording, category, message=key)


def user_parts(content: importers.Json, blobs: importers.Blobs) -> Iterable[UserPart]:
    """Yield the parts of a message in OpenAI's form, be it of Chat Completions or of Responses."""
    for part in content if isinstance(content, list) else [content]:
        text = importers.as_dict(part).get("text")
        if isinstance(text, str):
            yield TextPart(text=text)
        elif part is not None:
            yield from importers.openai_user_parts(part if isinstance(part, str) else [part], blobs)


def _meta(meta: Mapping[str, Any] | None) -> dict[str, Any]:
    return {SYSTEM: dict(meta)} if meta else {}
