"""Sessions of ADK made up for the tests, event by event, as exports have them."""

from __future__ import annotations

from typing import Any

from stenolog import Conversation
from stenolog.events import ModeSwitch
from tests.transcripts.given import Json

OPENED = 1767322800.0


def event(id: str, author: str, *parts: Json, invocation: str = "i1", **fields: Any) -> Json:
    """Return an event as exports have it."""
    content = {"content": {"parts": list(parts), "role": "user" if author == "user" else "model"}}
    number = int("".join(filter(str.isdigit, id)) or 0)
    about = {"id": id, "author": author, "invocation_id": invocation, "timestamp": OPENED + number}
    return {**about, **(content if parts else {}), **fields}


def call(name: str, id: str | None = None, **args: Any) -> Json:
    return {"function_call": {"id": id, "name": name, "args": args}}


def response(name: str, id: str | None = None, **result: Any) -> Json:
    return {"function_response": {"id": id, "name": name, "response": result}}


def events_in(conversation: Conversation) -> list[Any]:
    return [entry.event for entry in conversation if not isinstance(entry.event, ModeSwitch)]


EVENTS = [
    event("e1", "user", {"text": "Hi"}),
    event("e2", "root", call("look", "c1", at="sea")),
    event("e3", "root", response("look", "c1", result="blue")),
    event("e4", "root", {"text": "It is blue."}),
]
