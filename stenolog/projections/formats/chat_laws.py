"""Laws of chats whose calls are in `tool_calls`, and whose results are messages of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stenolog.projections.messages.identifiers import fits_id, fits_tool_name

from .checks import (
    Body,
    Finding,
    PersistentSet,
    Steps,
    blank,
    collected,
    is_object,
    law,
    per_message,
    stateful,
    unfit,
)


def _calls(at: str, message: Body) -> Iterator[tuple[str, Body]]:
    """Yield the calls of a message, each with its pointer."""
    return ((f"{at}/tool_calls/{k}", call) for k, call in enumerate(message.get("tool_calls") or []))


def _called(message: Body) -> tuple[str, ...]:
    return tuple(call["id"] for _, call in _calls("", message))


def _without(ids: tuple[str, ...], id: object) -> tuple[str, ...]:
    """Return the ids without the first that equals this one."""
    at = ids.index(id) if id in ids else len(ids)
    return ids[:at] + ids[at + 1 :]


@law
def messages_present(body: Body) -> Iterator[Finding]:
    """A request holds at least one message."""
    if not body.get("messages"):
        yield "/messages", "no message"


@stateful(lambda: ("", ()), waits=True)
def every_call_answered(waiting: tuple[str, tuple[str, ...]], at: str, message: Body) -> Steps:
    """Each tool call is answered by exactly one tool message, directly behind its message."""
    asked, ids = waiting
    if message.get("role") == "tool":
        return asked, _without(ids, message.get("tool_call_id"))
    for id in ids:
        yield asked, f"call {id!r} has no result"
    return at, _called(message)


@stateful(tuple)
def every_result_has_its_call(ids: tuple[str, ...], at: str, message: Body) -> Steps:
    """Each tool message answers a call of the assistant message before it, and no call twice."""
    if message.get("role") != "tool":
        return _called(message)
    if message.get("tool_call_id") not in ids:
        yield f"{at}/tool_call_id", repr(message.get("tool_call_id"))
    return _without(ids, message.get("tool_call_id"))


@stateful(PersistentSet)
def call_ids(seen: PersistentSet, at: str, message: Body) -> Steps:
    """The ids of calls are unique in the request, of letters, digits, _ and -, at most 40 long."""
    if message.get("tool_calls") == []:
        yield f"{at}/tool_calls", "an empty list"
    named = ((f"{place}/id", call.get("id", "")) for place, call in _calls(at, message))
    return (yield from unfit(named, fits_id, seen))


@per_message
def content_present(at: str, message: Body) -> Iterator[Finding]:
    """A message says something: no content only beside calls, no empty list, no blank text but a tool's."""
    content = message.get("content")
    if content is None and message.get("role") == "assistant" and message.get("tool_calls"):
        return
    if content is None or content == [] or (blank(content) and message.get("role") != "tool"):
        yield f"{at}/content", f"{content!r}"
    for k, part in enumerate(content if isinstance(content, list) else []):
        if part["type"] == "text" and blank(part["text"]):
            yield f"{at}/content/{k}/text", "a blank text"


@per_message
def media_from_the_user(at: str, message: Body) -> Iterator[Finding]:
    """Only the user shows pictures and files."""
    if message.get("role") == "user" or not isinstance(message.get("content"), list):
        return
    for k, part in enumerate(message["content"]):
        if part["type"] not in ("text", "refusal"):
            yield f"{at}/content/{k}/type", part["type"]


@law
def ends_with_a_user_turn(body: Body) -> Iterator[Finding]:
    """The last message is not the assistant's."""
    turns = body.get("messages")
    if turns and turns[-1].get("role") == "assistant":
        yield f"/messages/{len(turns) - 1}/role", "assistant"


def _unfit_names(at: str, message: Body) -> Iterator[Finding]:
    for place, call in _calls(at, message):
        kind = call.get("type", "function")
        if not fits_tool_name(call[kind]["name"]):
            yield f"{place}/{kind}/name", repr(call[kind]["name"])


@collected(_unfit_names)
def tool_names(body: Body, called: Sequence[Finding]) -> Iterator[Finding]:
    """The names of tools are of letters, digits, _ and -, at most 64 long, and declared once."""
    yield from called
    tools = enumerate(body.get("tools", []))
    declared = ((f"/tools/{i}/function/name", tool["function"]["name"]) for i, tool in tools)
    yield from unfit(declared, fits_tool_name)


@per_message
def arguments_are_objects(at: str, message: Body) -> Iterator[Finding]:
    """The arguments of a function's call are the text of a JSON object; a custom tool's input is a text."""
    for place, call in _calls(at, message):
        if call.get("type") == "custom":
            if not isinstance(call["custom"].get("input"), str):
                yield f"{place}/custom/input", f"{call['custom'].get('input')!r:.60}"
        elif not is_object(call["function"]["arguments"]):
            yield f"{place}/function/arguments", f"{call['function']['arguments']!r:.60}"
