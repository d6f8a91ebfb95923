"""The laws of OpenAI Chat Completions, each from a documented or observed refusal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stenolog.projections.formats.checks import (
    Body,
    Finding,
    Law,
    PersistentSet,
    Steps,
    asks_for_json_object,
    blank,
    collected,
    conversation,
    is_object,
    law,
    per_message,
    says_json,
    stateful,
    unfit,
)
from stenolog.projections.messages.identifiers import fits_id, fits_tool_name

from .write import too_many_tools

ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})


def _calls(at: str, message: Body) -> Iterator[tuple[str, Body]]:
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


@per_message
def known_roles(at: str, message: Body) -> Iterator[Finding]:
    """A message has one of the known roles."""
    if message.get("role") not in ROLES:
        yield f"{at}/role", repr(message.get("role"))


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


@per_message
def content_present(at: str, message: Body) -> Iterator[Finding]:
    """A message says something: null only beside calls, no empty list, no blank text but a tool's."""
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


def _thoughts(at: str, message: Body) -> Iterator[Finding]:
    """Yield each answer with its reasoning, and reasoning where none belongs."""
    thought = message.get("reasoning_content")
    if message.get("role") != "assistant":
        if "reasoning_content" in message:
            yield f"{at}/reasoning_content", "not an answer"
    elif "reasoning_content" not in message:
        yield at, ""
    elif isinstance(thought, str) and thought:
        yield at, "brought"
    else:
        yield f"{at}/reasoning_content", repr(thought)


@collected(_thoughts)
def reasoning_with_every_answer(body: Body, thoughts: Sequence[Finding]) -> Iterator[Finding]:
    """If one answer has its reasoning, every answer has one, as a text that is not empty."""
    brings = any(found == "brought" for _, found in thoughts)
    for place, found in thoughts:
        if found not in ("", "brought"):
            yield place, found
        elif brings and not found:
            yield f"{place}/reasoning_content", "none, though other answers bring theirs"


@law
def tools_declared(body: Body) -> Iterator[Finding]:
    """Tools are a list that is not empty, and nothing chooses among tools where there are none."""
    if body.get("tools") == []:
        yield "/tools", "an empty list"
    for key in ("tool_choice", "parallel_tool_calls"):
        if key in body and not body.get("tools"):
            yield f"/{key}", "no tools"


@law
def json_is_said(body: Body) -> Iterator[Finding]:
    """An answer that is to be a JSON object needs the word json among the messages."""
    if asks_for_json_object(body.get("response_format")) and not says_json(conversation(body, "messages")):
        yield "/response_format", "no message says json"


@law
def ends_with_a_user_turn(body: Body) -> Iterator[Finding]:
    """The last message is not the assistant's."""
    turns = body.get("messages")
    if turns and turns[-1].get("role") == "assistant":
        yield f"/messages/{len(turns) - 1}/role", "assistant"


@law
def tools_number(body: Body) -> Iterator[Finding]:
    """At most 128 tools are declared."""
    yield from too_many_tools(body)


LAWS: tuple[Law, ...] = (
    messages_present,
    known_roles,
    every_call_answered,
    every_result_has_its_call,
    call_ids,
    tool_names,
    arguments_are_objects,
    content_present,
    media_from_the_user,
    reasoning_with_every_answer,
    tools_declared,
    json_is_said,
    ends_with_a_user_turn,
    tools_number,
)
