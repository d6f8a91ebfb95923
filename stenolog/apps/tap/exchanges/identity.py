"""Identity of a request: its program, that program's ids of session and agent, and its purpose."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

from stenolog.projections.messages.json_fields import Json, as_dict, as_list, as_str, key_of
from stenolog.projections.programs import PROGRAMS

from .exchange import RecordedExchange
from .wire import WireRequest, texts_of

UNKNOWN = "assistant"
"""The name of the agent of a program that is not known."""
SESSION_HEADERS = ("session_id", "session-id", "x-session-id", "x-session-affinity", "conversation_id")
PARENT_HEADER = "x-parent-session-id"
AGENT_HEADERS = ("thread-id", "thread_id")
TITLE = re.compile(r"\btitles?\b", re.IGNORECASE)
CLASSIFIER = re.compile(
    r"\b(classif|permission|is_?new_?topic|topic|safety|policy_spec|prefix)", re.IGNORECASE
)
COMPACTION = re.compile(
    r"(detailed |concise |handoff )?summar(y|ize|ise)\b.{0,80}\b(conversation|session|history|so far|context)"
    r"|compact(ion|ed)? (the )?(conversation|history|context)",
    re.IGNORECASE | re.DOTALL,
)
SIDE = frozenset({"title", "classifier", "probe"})
"""Kinds of requests that are not turns of an agent, and have a lane of their own."""
LONGEST_ASKED = 4_000
"""Characters of a message in which the purpose of a request is looked for."""


class Identity(NamedTuple):
    """Program, ids of the session and of the agent in it, and purpose.

    `session` is empty if the program sends none; `rule` says where it was. `agent` is empty for the main
    agent. `parent` is the agent that began this one. `kind` is empty for a turn of a conversation, else
    "title", "classifier", "count-tokens", "probe", "warm-up" or "compaction".
    """

    client: str
    session: str = ""
    agent: str = ""
    parent: str = ""
    kind: str = ""
    rule: str = ""


class _Signs(NamedTuple):
    """Signs of all programs; those of one program come before shared ones."""

    clients: tuple[tuple[str, str], ...]
    session_headers: tuple[str, ...]
    agent_headers: tuple[str, ...]
    turns: tuple[str, ...]
    sessions_of: tuple[Callable[[str], str], ...]


@cache
def _signs(_changes: int) -> _Signs:
    found = [program.requests for program in PROGRAMS.values() if program.requests is not None]
    return _Signs(
        tuple((word, signs.client) for signs in found for word in signs.words),
        (*(name for signs in found for name in signs.session_headers), *SESSION_HEADERS),
        (*(name for signs in found for name in signs.agent_headers), *AGENT_HEADERS),
        tuple(signs.turn for signs in found if signs.turn),
        tuple(signs.session_of for signs in found if signs.session_of is not None),
    )


def identity_of(exchange: RecordedExchange, request: WireRequest) -> Identity:
    """Return a request's identity, by the ids that its program sends."""
    signs = _signs(PROGRAMS.changes)
    headers, client = exchange.headers, client_of(exchange)
    kind = request.kind or kind_of(request, is_agent=client != UNKNOWN)
    turn: Mapping[str, Json] = {}
    field = ""
    for field in signs.turns:
        value = as_str(as_dict(request.sent.get("client_metadata")).get(field))
        if turn := _json(headers.get(field, "")) or _json(value):
            break
    # A sub-agent may have a session of its own, and name the one that began it.
    if above := key_of(headers.get(PARENT_HEADER, "")):
        own = key_of(headers.get("x-session-id", "")) or key_of(headers.get("session-id", ""))
        return Identity(client, above, own, "", kind, f"header {PARENT_HEADER}")
    for name in signs.session_headers:
        if session := key_of(headers.get(name, "")):
            agent = next((key_of(headers[each]) for each in signs.agent_headers if headers.get(each)), "")
            return _of(client, session, agent, turn, kind, f"header {name}")
    if session := key_of(as_str(turn.get("session_id"))):
        return _of(client, session, "", turn, kind, field)
    user = as_str(as_dict(request.sent.get("metadata")).get("user_id"))
    for session_of in signs.sessions_of if user else ():
        if session := key_of(session_of(user)):
            agent = next((key_of(headers[each]) for each in signs.agent_headers if headers.get(each)), "")
            return Identity(client, session, agent, "", kind, "metadata.user_id")
    return Identity(client, kind=kind)


def _of(client: str, session: str, agent: str, turn: Mapping[str, Json], kind: str, rule: str) -> Identity:
    agent = key_of(as_str(turn.get("thread_id"))) or agent
    parent = key_of(as_str(turn.get("parent_thread_id")))
    # A main thread may have the id of its session.
    return Identity(client, session, "" if agent == session else agent, parent, kind, rule)


def _json(text: str) -> Mapping[str, Json]:
    try:
        return as_dict(json.loads(text)) if text else {}
    except (ValueError, RecursionError):
        return {}


def client_of(exchange: RecordedExchange) -> str:
    """Return the program that sent a request; "assistant" for an unknown one."""
    agent = exchange.headers.get("user-agent", "").lower()
    originator = exchange.headers.get("originator", "").lower()
    for word, name in _signs(PROGRAMS.changes).clients:
        if word in agent or originator.startswith(word):
            return name
    return UNKNOWN


def kind_of(request: WireRequest, *, is_agent: bool = True) -> str:
    """Return a request's purpose if it is no turn; empty for a turn.

    `is_agent`: the program is known, and its turns have tools. Any other's user messages are turns.
    """
    body = request.body
    if body.get("generate") is False:
        return "warm-up"
    if body.get("max_tokens") == 1 or body.get("max_output_tokens") == 1:
        return "probe"
    asked = [text[:LONGEST_ASKED] for text in (*request.system_texts, *_developer_texts(request))]
    # A long message is somebody's work and no instruction; an instruction stands last in it.
    last = [text[-LONGEST_ASKED:] for text in _last_texts(request.messages[-1] if request.messages else {})]
    is_history = len(request.messages) >= MIN_COMPACTED
    if is_agent and asks_for_summary(request):
        return "compaction"
    # Whoever may call tools goes on with a conversation.
    if request.declared_tools or as_list(body.get("tools")):
        return ""
    if any(map(COMPACTION.search, asked)):
        return "compaction"
    if is_history and not is_agent:
        return ""
    if any(map(TITLE.search, [*asked, *(last if is_agent else ())])):
        return "title"
    return "classifier" if any(map(CLASSIFIER.search, asked)) else ""


def _developer_texts(request: WireRequest) -> list[str]:
    first = request.messages[0] if request.messages else {}
    return _last_texts(first) if first.get("role") in ("developer", "system") else []


def asks_for_summary(request: WireRequest) -> bool:
    """Return whether the last message asks for a summary."""
    last = [text[-LONGEST_ASKED:] for text in _last_texts(request.messages[-1] if request.messages else {})]
    return len(request.messages) >= MIN_COMPACTED and any(map(COMPACTION.search, last))


MIN_COMPACTED = 3
"""Messages that a conversation has, at least, whose program asks for a summary of it."""


def _last_texts(message: Mapping[str, Json]) -> list[str]:
    return [*texts_of(message)][-1:]
