"""The laws of OpenAI Chat Completions, each from a documented or observed refusal."""

from __future__ import annotations

from collections.abc import Iterator

from stenolog.projections.requests.names import fits_id, fits_tool_name

from .law import Body, Finding, Law, asks_for_json_object, blank, is_object, law, messages, says_json, unfit

ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})


def _calls(at: str, message: Body) -> Iterator[tuple[str, Body]]:
    return ((f"{at}/tool_calls/{k}", call) for k, call in enumerate(message.get("tool_calls") or []))


@law
def messages_present(body: Body) -> Iterator[Finding]:
    """A request holds at least one message."""
    if not body.get("messages"):
        yield "/messages", "no message"


@law
def known_roles(body: Body) -> Iterator[Finding]:
    """A message has one of the known roles."""
    for at, message in messages(body):
        if message.get("role") not in ROLES:
            yield f"{at}/role", repr(message.get("role"))


@law
def every_call_answered(body: Body) -> Iterator[Finding]:
    """Each tool call is answered by exactly one tool message, directly behind its message."""
    open_ids: list[str] = []
    asked = ""
    for at, message in [*messages(body), ("", {"role": "end"})]:
        if message["role"] == "tool" and message.get("tool_call_id") in open_ids:
            open_ids.remove(message["tool_call_id"])
            continue
        if message["role"] != "tool":
            for id in open_ids:
                yield asked, f"call {id!r} has no result"
            open_ids = [call["id"] for _, call in _calls(at, message)]
            asked = at


@law
def every_result_has_its_call(body: Body) -> Iterator[Finding]:
    """Each tool message answers a call of the assistant message before it, and no call twice."""
    callable_ids: list[str] = []
    for at, message in messages(body):
        if message.get("role") != "tool":
            callable_ids = [call["id"] for _, call in _calls(at, message)]
        elif message.get("tool_call_id") in callable_ids:
            callable_ids.remove(message["tool_call_id"])
        else:
            yield f"{at}/tool_call_id", repr(message.get("tool_call_id"))


@law
def call_ids(body: Body) -> Iterator[Finding]:
    """The ids of calls are unique in the request, of letters, digits, _ and -, at most 40 long."""
    seen: set[str] = set()
    for at, message in messages(body):
        if message.get("tool_calls") == []:
            yield f"{at}/tool_calls", "an empty list"
        for place, call in _calls(at, message):
            id = call.get("id", "")
            if id in seen or not fits_id(id):
                yield f"{place}/id", repr(id)
            seen.add(id)


@law
def tool_names(body: Body) -> Iterator[Finding]:
    """The names of tools are of letters, digits, _ and -, at most 64 long, and declared once."""
    for at, message in messages(body):
        for place, call in _calls(at, message):
            name = call["function"]["name"]
            if not fits_tool_name(name):
                yield f"{place}/function/name", repr(name)
    tools = enumerate(body.get("tools", []))
    declared = ((f"/tools/{i}/function/name", tool["function"]["name"]) for i, tool in tools)
    yield from unfit(declared, fits_tool_name)


@law
def arguments_are_objects(body: Body) -> Iterator[Finding]:
    """The arguments of a call are the text of a JSON object."""
    for at, message in messages(body):
        for place, call in _calls(at, message):
            if not is_object(call["function"]["arguments"]):
                yield f"{place}/function/arguments", f"{call['function']['arguments']!r:.60}"


@law
def content_present(body: Body) -> Iterator[Finding]:
    """A message says something: null only beside calls, no empty list, no blank text but a tool's."""
    for at, message in messages(body):
        content = message.get("content")
        if content is None and message.get("role") == "assistant" and message.get("tool_calls"):
            continue
        if content is None or content == [] or (blank(content) and message.get("role") != "tool"):
            yield f"{at}/content", f"{content!r}"
        for k, part in enumerate(content if isinstance(content, list) else []):
            if part["type"] == "text" and blank(part["text"]):
                yield f"{at}/content/{k}/text", "a blank text"


@law
def media_from_the_user(body: Body) -> Iterator[Finding]:
    """Only the user shows pictures and files."""
    for at, message in messages(body):
        if message.get("role") == "user" or not isinstance(message.get("content"), list):
            continue
        for k, part in enumerate(message["content"]):
            if part["type"] not in ("text", "refusal"):
                yield f"{at}/content/{k}/type", part["type"]


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
    if asks_for_json_object(body.get("response_format")) and not says_json(body.get("messages")):
        yield "/response_format", "no message says json"


@law
def ends_with_a_user_turn(body: Body) -> Iterator[Finding]:
    """The last message is not the assistant's."""
    turns = body.get("messages")
    if turns and turns[-1].get("role") == "assistant":
        yield f"/messages/{len(turns) - 1}/role", "assistant"


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
    tools_declared,
    json_is_said,
    ends_with_a_user_turn,
)
