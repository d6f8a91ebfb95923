"""Hostile texts, and conversations that have them in every field of every kind of event."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import stenolog
from stenolog import AgentCard, AssistantMessage, Event, ModeSwitch, Tool, UserMessage
from stenolog.domain.codec import REGISTRY
from stenolog.errors import StenologError
from stenolog.testing import examples

TEXTS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'onmouseover='alert(1)' autofocus onfocus='alert(1)",
    "javascript:alert(1)",
    "</textarea></title></pre></script><script>alert(1)</script>",
    "<svg onload=alert(1)><style>*{background:url(http://evil.example/x)}</style>",
    '<meta http-equiv="refresh" content="0;url=http://evil.example/"><base href="http://evil.example/">',
    '<iframe srcdoc="<script>alert(1)</script>"></iframe>',
    "\u202eevil\u202c\u2066\u200f",
    "\x1b[31mred\x1b[0m\x1b]0;title\x07\r\x08",
    "![x](http://evil.example/x.png) [y](javascript:alert(1))",
    "{{ 7 * 7 }}{% raw %}${7*7}#{7*7}<%= 7 * 7 %>",
    "a\x00b",
    "\\ud800\\u0000 \ufffe\uffff",
    "]]><!--<script>alert(1)</script>-->",
    "%3Cscript%3Ealert(1)%3C/script%3E/../../?token=x#y&amp;z",
)
SPOKEN = 4
"""A position at which the agent of a hostile conversation has spoken."""
LONG_LINE = "x" * 10_000_000


def name_from(text: str) -> str:
    """Return a text as the name of a conversation, as far as a name may hold it."""
    return "".join(each for each in text if each.isprintable()).strip() or "x"


def agent_from(text: str) -> str:
    """Return a text as the name of an agent."""
    return name_from(text).replace("/", "|")


def filled(event: Event, text: str) -> Event:
    """Return the event with the text in each field, and in each key, that takes it."""
    topic, payload = REGISTRY.dump(event)
    data = json.loads(payload)
    for holder, key in list(_strings(data)):
        before = holder[key]
        holder[key] = text
        if not _is_accepted(topic, data):
            holder[key] = agent_from(text)
        if not _is_accepted(topic, data):
            holder[key] = before
    assert json.dumps(text) in json.dumps(data)
    return REGISTRY.load(topic, json.dumps(data).encode())


def _is_accepted(topic: str, data: object) -> bool:
    try:
        loaded = REGISTRY.load(topic, json.dumps(data).encode())
        REGISTRY.dump(loaded)
    except (StenologError, ValueError):
        return False
    return loaded.kind == topic.partition("@")[0]


def _strings(data: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each text in some JSON, as the list or object that has it and its key."""
    for key, value in list(data.items() if isinstance(data, dict) else enumerate(data)):
        if key == "policy":  # a policy of a plugin that is not here is an error of another kind
            continue
        if isinstance(value, str):
            yield data, key
        elif isinstance(value, dict | list):
            yield from _strings(value)


def write(log: stenolog.Log, text: str) -> str:
    """Write a conversation with the text everywhere, and return its name."""
    name = name_from(text)
    talk = log[name]
    clean = text.replace("\x00", "\ufffd")
    agent = agent_from(text)
    shell = Tool(name=clean, description=clean, parameters={"title": clean, clean: clean})
    card = AgentCard(model=clean, provider=clean, persona=clean, tools=[shell], parameters={clean: clean})
    talk.append(ModeSwitch(title=clean, mode=clean, joins=[agent], cards={agent: card}))
    talk.append(UserMessage(text, author=clean, to=[agent], meta={clean: clean}, tags=[clean]))
    talk.extend([filled(event, text) for event in examples().values()], expected=talk.position)
    talk.append(AssistantMessage(agent=agent, text=text))
    return name


def addresses(name: str, agent: str, *, fragments: bool = True) -> Iterator[str]:
    """Yield the address of each page of a conversation, at two positions; and of the fragments of pages."""
    from stenolog.apps.inspect.app import PAGES

    for page in PAGES:
        if page.of_conversation and (fragments or page.twin is not None):
            for query in ({}, {"at": SPOKEN, "agent": agent}):
                yield f"/{page.name}/{quote(name, safe='')}?{urlencode(query)}"
