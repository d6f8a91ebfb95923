"""A conversation of OpenHands, written for both versions of its events.

`positions` has each event's positions by id: condensations and branches name events, the log covers and hides
positions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from stenolog import events, importers
from stenolog.importers import Blobs, Json, as_dict, as_int, as_list, as_str
from stenolog.parts import AssistantPart, TextPart, UserPart

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_KIND = re.compile(r"Tool(Definition)?$")


def user_parts(content: Json, blobs: Blobs) -> Iterator[UserPart]:
    """Yield a content's parts: text, or texts and pictures."""
    for part in content if isinstance(content, list) else [content]:
        if urls := as_list(as_dict(part).get("image_urls")):
            yield from picture_parts(urls, blobs)
        elif part is not None:
            yield from importers.openai_user_parts([part], blobs)


def picture_parts(urls: Sequence[Json], blobs: Blobs) -> Iterator[UserPart]:
    """Yield pictures, given by their URLs."""
    for url in urls:
        if isinstance(url, str):
            yield from importers.openai_user_parts([{"type": "image_url", "image_url": {"url": url}}], blobs)


def texts(content: Json) -> str:
    """Return the words of a content."""
    if isinstance(content, str):
        return content
    return "".join(as_str(as_dict(part).get("text")) for part in as_list(content))


def tools_in(listed: Json) -> tuple[events.Tool, ...] | None:
    """Return a system prompt's tools, each name once; None if none are listed."""
    found = {tool.name: tool for tool in map(_tool, map(as_dict, as_list(listed))) if tool.name}
    return tuple(found.values()) or None


def _tool(definition: dict[str, Any]) -> events.Tool:
    """Return a tool in OpenAI's form, or an SDK definition, which is named by its class."""
    described = as_dict(definition.get("mcp_tool")) or definition
    tool = importers.read_tool(described)
    if tool.name:
        return tool
    kind = _KIND.sub("", as_str(definition.get("kind")))
    return importers.read_tool(
        {**described, "name": _WORD.sub("_", kind).lower() or as_str(definition.get("title"))}
    )


COUNTED = (
    "prompt_tokens",
    "completion_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)


class Meter:
    """Running totals of tokens and costs, as OpenHands keeps them, and the increase since an answer."""

    def __init__(self) -> None:
        self._total = dict.fromkeys(COUNTED, 0)
        self._seen = dict(self._total)
        self._cost = self._seen_cost = 0.0

    def note(self, metrics: Sequence[Mapping[str, Json]]) -> None:
        """Take in the totals of all models together."""
        counted = [as_dict(each.get("accumulated_token_usage")) for each in metrics]
        self._total = {name: sum(as_int(each.get(name)) for each in counted) for name in COUNTED}
        self._cost = sum(_number(each.get("accumulated_cost")) for each in metrics)

    def since(self) -> tuple[dict[str, int], float]:
        """Return the tokens and the dollars since the last call of this method."""
        counted = {name: max(self._total[name] - self._seen[name], 0) for name in COUNTED}
        cost = max(self._cost - self._seen_cost, 0.0)
        self._seen, self._seen_cost = dict(self._total), self._cost
        return counted, cost


def _number(value: Json) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 1e12 else 0.0


SYSTEM = "openhands"
MAIN = "openhands"
"""The name of the main agent."""
USER = "user"
NO_BLOBS: Blobs = {}


class OpenHandsSession(importers.SessionConverter):
    """Writers of one conversation, the current lane, and what left its context."""

    system, main = SYSTEM, MAIN

    def __init__(self, log: importers.ExistingLog) -> None:
        super().__init__(log)
        self.agent = MAIN
        """The agent that the next events belong to."""
        self.errors: set[str] = set()
        """The messages of the failures."""
        self._pending: list[str] = []
        """The events of the open answer, whose position is known once it is complete."""
        self._answer_of: dict[str, tuple[str, str]] = {}
        """The agent and the answer that an event is a part of."""
        self._parts: dict[tuple[str, str], set[str]] = {}
        """The events of each answer, which leave the context together."""
        self._results: dict[int, list[int]] = {}
        """The positions of the results, by the position of the answer with the calls."""
        self._covered: dict[str, set[int]] = {}
        """The positions that each summary covers, by the id of the condensation."""
        self._dropped: set[int] = set()
        self._abandoned: set[int] = set()
        self._about: dict[str, Any] = {}

    def describe(self, about: Mapping[str, Any]) -> None:
        """Note facts on the conversation for `meta`; the first value of each stays."""
        self._about = {**{name: value for name, value in about.items() if value}, **self._about}
        self.setup.about(SYSTEM, self._about)

    def close(self) -> None:
        """Complete the open answer, and note its position."""
        if self._pending:
            position = self.writer.here
            for key in self._pending:
                self.note(key, position)
            self._pending = []

    def add_answer(
        self,
        key: str,
        parts: Sequence[AssistantPart],
        id: str = "",
        *,
        model: str = "",
        finish_reason: str = "",
        usage: events.Usage | None = None,
    ) -> None:
        """Write a part of the answer with that id; successive parts are one message."""
        id = importers.conversation_name(id, key)
        if self.writer.starts_message(key, self.agent, id):
            self.close()
            if model:
                self.setup.card(self.agent, model=model)
            self.setup.settle(key, self.time)
        answer = importers.Answer(
            self.agent, id, self.time, [*parts], self._to(self.agent), model, finish_reason, usage
        )
        self.writer.add_part(key, answer)
        self._pending.append(key)
        self._answer_of[key] = self.agent, id
        self._parts.setdefault((self.agent, id), set()).add(key)

    def add_user_message(
        self,
        key: str,
        parts: Iterable[UserPart],
        kind: events.AuthorKind = "person",
        *,
        author: str = "",
        cause: int | None = None,
        event: str = "",
        blobs: Blobs = NO_BLOBS,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        """Write a message of a person, or of OpenHands in the user's name; `event` is its event's key."""
        message = events.UserMessage(
            parts=tuple(parts),
            author=author,
            author_kind=kind,
            to=(self.agent,),
            cause=cause,
            meta={SYSTEM: dict(meta)} if meta else {},
            source=self.writer.source(key, USER, key),
        )
        self.close()
        if kind == "person":
            self.name_after(message.text)
        self.put(message, key, blobs, event)

    def add_result(
        self,
        key: str,
        call_id: str,
        name: str,
        parts: Iterable[UserPart],
        *,
        is_error: bool = False,
        event: str = "",
        blobs: Blobs = NO_BLOBS,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the result of a call."""
        self.close()
        call = self.writer.closed(call_id)
        result = events.ToolResult(
            call_id=call_id,
            call=call.ref if call else None,
            to=() if call else (self.agent,),
            name=name or (call.name if call else ""),
            parts=tuple(parts),
            is_error=is_error,
            meta={SYSTEM: dict(meta)} if meta else {},
            source=self.writer.source(call_id, "tool", key),
        )
        position = self.put(result, key, blobs, event)
        if call is not None:
            self._results.setdefault(call.position, []).append(position)

    def add_error(self, key: str, message: str, category: events.ErrorCategory) -> None:
        """Write a failure of the model, or of the program around it."""
        self.close()
        self.errors.add(message)
        self.write_error(key, message, category, message=key, agent=self.agent)

    def condense(self, key: str, ids: Collection[str], summary: str, *, supersedes: bool = False) -> None:
        """Write a summary in place of these events; without one, hide them.

        `supersedes`: it replaces all earlier summaries too.
        """
        self.close()
        forgotten = self._with_answers({*ids, *(self._covered if supersedes else ())})
        positions = {position for id in forgotten for position in self.positions.get(id, ())}
        positions |= {position for id in forgotten for position in self._covered.get(id, ())}
        positions = self._in_units(positions) - self._abandoned - self._dropped
        # Two summaries may cover the same message only if one of them covers all of the other.
        positions = positions.difference(
            *(covered for covered in self._covered.values() if not covered <= positions)
        )
        unanswered = positions & set(self.writer.open_calls(self.agent))
        covers = positions - unanswered
        # No summary may cover a call that its result still follows.
        self._dropped |= unanswered if summary else positions
        self._hide()
        self.setup.settle(key, self.time)
        if not summary:
            self.decisions["condensation without a summary"] += 1
        elif covers:
            self._summarise(key, summary, covers)
        else:
            self.add_user_message(key, [TextPart(text=summary)], "system")

    def abandon(self, path: Collection[str]) -> None:
        """Hide all events off the `path`; they stay as a fork."""
        self.close()
        stays = self._with_answers(path)
        abandoned = {p for id, at in self.positions.items() if id not in stays for p in at}
        if abandoned != self._abandoned:
            self._abandoned = abandoned
            self._hide()
            self.setup.branches = True
            self.decisions["rewound"] += 1

    def _summarise(self, key: str, summary: str, covers: set[int]) -> None:
        message = events.AssistantMessage(
            agent=self.agent,
            purpose="summary",
            covers=tuple(importers.position_ranges(covers, set())),
            parts=[TextPart(text=summary)],
            to=self._to(self.agent),
            source=self.writer.source(key, "condensation", key),
        )
        position = self.put(message, key)
        self._covered[key] = covers | {position}
        self.decisions["condensation as a summary"] += 1

    def _with_answers(self, ids: Collection[str]) -> set[str]:
        answers = {self._answer_of[id] for id in ids if id in self._answer_of}
        return {*ids, *(part for answer in answers for part in self._parts[answer])}

    def _in_units(self, positions: set[int]) -> set[int]:
        for answer, results in self._results.items():
            positions = positions.union(results) if answer in positions else positions.difference(results)
        return positions

    def _hide(self) -> None:
        hidden = self._dropped | self._abandoned
        self.setup.hides = tuple(importers.position_ranges(hidden, set())) or None
