"""Drift of recorded programs: what a new release changed in its system prompts and tools.

The versions are the agents' cards in the log, without what changes from session to session. An agent with
quite another prompt, such as a sub-agent, is another role.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from itertools import pairwise
from typing import Any, NamedTuple

from stenolog.domain.card import AgentCard
from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, UserMessage
from stenolog.domain.values import Tool
from stenolog.projections.formats import providers
from stenolog.projections.messages.body_digest import compact, escape

from .word_diff import Span, word_diff

META = "tap"
FOREIGN = "mcp__"
"""The beginning of the names of tools that the user brought along."""
ALIKE = 0.4
"""The part of their lines that two prompts must share to be versions of one."""
MAIN = "main"


class PromptVersion(NamedTuple):
    """A version of an agent's prompt and tools, without volatile text: when and how often it was used.

    `programs` are the clients that sent it, with releases; `sample` is the card of its first use, as it was.
    """

    digest: str
    first: datetime
    last: datetime
    requests: int
    conversations: int
    programs: tuple[str, ...]
    prompt: str
    tools: tuple[Tool, ...]
    sample: AgentCard


class ToolChange(NamedTuple):
    """Change of a tool: of its description, in stretches, and of its schema, by JSON pointers."""

    name: str
    description: tuple[Span, ...] = ()
    schema: tuple[str, ...] = ()


class VersionChange(NamedTuple):
    """The difference of two versions: the prompt's stretches, and the tools."""

    before: str
    after: str
    time: datetime
    prompt: tuple[Span, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[ToolChange, ...]


class RoleDrift(NamedTuple):
    """The versions of a program's role by time, and their changes.

    `begins` is its prompt's first line; `agents` are those in it, each with its conversation.
    """

    client: str
    role: str
    begins: str
    versions: tuple[PromptVersion, ...]
    changes: tuple[VersionChange, ...]
    agents: tuple[tuple[str, str], ...]


@dataclass
class _Seen:
    """A version on its way."""

    first: datetime
    last: datetime
    prompt: str
    tools: tuple[Tool, ...]
    sample: AgentCard
    requests: int = 0
    conversations: set[str] = field(default_factory=set)
    programs: dict[str, None] = field(default_factory=dict)


@dataclass
class _Role:
    client: str
    role: str
    versions: dict[str, _Seen] = field(default_factory=dict)
    agents: dict[tuple[str, str], None] = field(default_factory=dict)
    lines: frozenset[str] = frozenset()


class _Use(NamedTuple):
    """A card in use: whose, since when, and how many requests it was sent with."""

    conversation: str
    agent: str
    client: str
    role: str
    program: str
    card: AgentCard
    prompt: str
    first: datetime
    last: datetime
    requests: int


def drift(conversations: Iterable[tuple[str, Iterable[Entry]]], client: str = "") -> list[RoleDrift]:
    """Return the drift of every recorded program, or of one `client`, over conversations by name.

    Tool results may be left out.
    """
    uses = [use for name, entries in conversations for use in _uses(name, entries)]
    roles: list[_Role] = []
    for use in sorted(uses, key=lambda use: use.first):
        if use.requests and client in ("", use.client):
            _add(roles, use)
    found = [_role_drift(role) for role in roles]
    return sorted(found, key=lambda one: (one.client, one.role != MAIN, one.role, one.versions[0].first))


def _uses(name: str, entries: Iterable[Entry]) -> Iterator[_Use]:
    now: dict[str, _Use] = {}
    about: dict[str, Mapping[str, Any]] = {}
    openings: dict[str, Opening] = defaultdict(Opening)
    for entry in entries:
        event = entry.event
        if isinstance(event, UserMessage):
            for agent in event.to:
                openings[agent].take(entry.position, event)
        elif isinstance(event, ModeSwitch):
            versions: Any = event.meta.get(META)
            for agent, card in event.cards.items():
                if isinstance(versions, Mapping) and versions.get("client"):
                    about[agent] = {**about.get(agent, {}), **versions}
                if card is None or agent not in about:
                    continue
                if agent in now:
                    yield now[agent]
                who = about[agent]
                given = (str(who["client"]), _role_of(who), str(who.get("program", "")))
                now[agent] = _Use(name, agent, *given, card, card.persona, entry.time, entry.time, 0)
        elif getattr(event, "purpose", "") == "routing":
            continue  # a count of tokens, or a warm-up, which may lack the prompt
        elif isinstance(event, AssistantMessage | LlmError) and event.receipt and event.agent in now:
            use = now[event.agent]
            openings[event.agent].is_over = True
            prompt = use.prompt or openings[event.agent].text
            now[event.agent] = use._replace(last=entry.time, requests=use.requests + 1, prompt=prompt)
    yield from now.values()


@dataclass
class Opening:
    """A program's words before a person's, by position: the prompt, if it has no other instructions."""

    texts: dict[int, str] = field(default_factory=dict)
    is_over: bool = False

    @property
    def text(self) -> str:
        return "\n\n".join(self.texts.values())

    def take(self, position: int, event: UserMessage) -> None:
        """Take the next message to the agent."""
        self.is_over |= event.author_kind != "system"
        if not self.is_over:
            self.texts[position] = event.text


def _role_of(about: Mapping[str, Any]) -> str:
    return str(about.get("kind") or ("sub-agent" if about.get("agent") else MAIN))


def _add(roles: list[_Role], use: _Use) -> None:
    prompt = masked(use.prompt)
    tools = tuple(_masked_tool(tool) for tool in use.card.tools or () if not tool.name.startswith(FOREIGN))
    given = [
        prompt,
        *(_said_of(tool) for tool in tools),
    ]
    digest = sha256(compact(_plain(given)).encode("utf-8", "surrogatepass")).hexdigest()[:12]
    role = _found(roles, use, digest, frozenset(_lines(prompt)))
    seen = role.versions.setdefault(
        digest, _Seen(use.first, use.last, prompt, tools, replace(use.card, persona=use.prompt))
    )
    role.agents[use.conversation, use.agent] = None
    seen.last = max(seen.last, use.last)
    seen.requests += use.requests
    seen.conversations.add(use.conversation)
    if use.program:
        seen.programs[use.program] = None


def _found(roles: list[_Role], use: _Use, digest: str, lines: frozenset[str]) -> _Role:
    """Return a card's role; a new one if it is like none."""
    same = [role for role in roles if (role.client, role.role) == (use.client, use.role)]
    for role in same:
        if digest in role.versions:
            return role
    best = max(same, key=lambda role: _alike(role.lines, lines), default=None)
    if best is None or _alike(best.lines, lines) < ALIKE:
        best = _Role(use.client, use.role)
        roles.append(best)
    best.lines = lines
    return best


def _alike(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one or other else 1.0


def _lines(text: str) -> Iterator[str]:
    return (line.strip() for line in text.split("\n") if line.strip())


def _masked_tool(tool: Tool) -> Tool:
    schema = _plain(tool.parameters)
    return replace(tool, description=masked(tool.description), parameters=schema, approval=False)


def _plain(value: Any) -> Any:
    match value:
        case Mapping():
            return {key: _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case str():
            return masked(value)
        case _:
            return value


def _role_drift(role: _Role) -> RoleDrift:
    versions = tuple(
        PromptVersion(
            digest,
            seen.first,
            seen.last,
            seen.requests,
            len(seen.conversations),
            tuple(seen.programs),
            seen.prompt,
            seen.tools,
            seen.sample,
        )
        for digest, seen in role.versions.items()
    )
    changes = tuple(version_change(*pair) for pair in pairwise(versions))
    lines = [line for line in _lines(versions[0].prompt) if not line.startswith("[")]
    return RoleDrift(role.client, role.role, lines[0] if lines else "", versions, changes, tuple(role.agents))


def version_change(before: PromptVersion, after: PromptVersion) -> VersionChange:
    """Return the difference of two versions."""
    old, new = ({tool.name: tool for tool in version.tools} for version in (before, after))
    both = [name for name in new if name in old]
    return VersionChange(
        before.digest,
        after.digest,
        after.first,
        word_diff(before.prompt, after.prompt) if before.prompt != after.prompt else (),
        tuple(name for name in new if name not in old),
        tuple(name for name in old if name not in new),
        tuple(change for name in both if (change := _tool_change(old[name], new[name])) is not None),
    )


def _said_of(tool: Tool) -> list[Any]:
    own = [tool.raw] if tool.raw else []
    return [tool.name, tool.description, tool.parameters, tool.strict, *own]


def _tool_change(old: Tool, new: Tool) -> ToolChange | None:
    words = word_diff(old.description, new.description) if old.description != new.description else ()
    schema = tuple(_schema_changes(_plain(old.parameters), _plain(new.parameters), ""))
    if old.strict != new.strict:
        schema = (*schema, f"~ strict: {old.strict} → {new.strict}")
    if old.raw != new.raw:
        schema = (*schema, f"~ {new.provider or old.provider}: {old.raw} → {new.raw}")
    return ToolChange(new.name, words, schema) if words or schema else None


def _schema_changes(old: Any, new: Any, pointer: str) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            below = f"{pointer}/{escape(str(key))}"
            if key not in new:
                yield f"- {below}"
            elif key not in old:
                yield f"+ {below}"
            else:
                yield from _schema_changes(old[key], new[key], below)
    elif old != new:
        yield f"~ {pointer or '/'}: {_short(old)} → {_short(new)}"


def _short(value: Any) -> str:
    text = compact(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


MONTHS = (
    "Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t(?:ember)?)?|"
    "Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?"
)
DAYS = "(?:Mon|Tue(?:s)?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?"
TREE = "│├└┌─"
# A status ends where the next part of the prompt begins.
STATUS = re.compile(
    r"^(?:gitStatus|git status)\b.*?(?=^\s*#|^\s*<|\Z)", re.MULTILINE | re.DOTALL | re.IGNORECASE
)
_MASKS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, flags), instead)
    for pattern, instead, flags in (
        # Claude Code's header is made anew for each release, and partly for each session.
        (r"^x-anthropic-billing-header:.*$", "[billing header]", re.MULTILINE),
        (STATUS.pattern, "[git status]\n", STATUS.flags),
        (
            r"^(\W*(?:platform|os version|shell|(?:primary |current )?working directory|cwd|model|username|"
            r"is (?:a |directory a )?git repo(?:sitory)?|current branch|main branch[^:]*|"
            r"(?:current |today's )?(?:date|time|date and time)|time ?zone|session id|temporary directory)"
            r"\b[^:\n]*): .*$",
            r"\1: [environment]",
            re.MULTILINE | re.I,
        ),
        (rf"^.*[{TREE}].*(?:\n.*[{TREE}].*)*$", "[folders]", re.MULTILINE),
        (rf"(?:{DAYS},? )?(?:{MONTHS}) \d{{1,2}},? \d{{4}}\b", "[date]", 0),
        (rf"(?:{DAYS},? )?\d{{1,2}} (?:{MONTHS}),? \d{{4}}\b", "[date]", 0),
        (
            r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?Z| ?[+-]\d{2}:?\d{2})?)?",
            "[date]",
            0,
        ),
        (r"\b\d{1,2}/\d{1,2}/\d{4}\b", "[date]", 0),
        (r"\b\d{1,2}:\d{2}(?::\d{2})?(?: ?[AP]M)?\b", "[time]", 0),
        (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "[id]", re.I),
        (r"\b(?:msg|toolu|call|resp|ses|sess|rs|fc|req|thread|user|acc|org)_[A-Za-z0-9]{8,}\b", "[id]", 0),
        (r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b", "[hash]", 0),
        (r"\bhttps?://(?:127\.0\.0\.1|localhost)(?::\d+)?[^\s\"'`)]*", "[address]", 0),
        (r"(?<![\w/.])(?:~|[A-Z]:\\|/(?=[\w.@+-]+/))[\w.@+/\\~-]*[\w/]", "[path]", 0),
    )
)


def masked(text: str) -> str:
    """Return a text without what changes from one session to the next: dates, ids, paths, git's status.

    >>> masked("Today's date is 2026-01-05, in /home/user/bakery.")
    "Today's date is [date], in [path]."
    """
    for pattern, instead in _MASKS:
        text = pattern.sub(instead, text)
    # One release says of itself which model it speaks with.
    names = "|".join(name for _, provider in providers() for name in provider.spelled)
    return re.sub(rf"\b(?:{names})\b(?:\[\w+\])?(?: \(\w+ context\))?", "[model]", text)
