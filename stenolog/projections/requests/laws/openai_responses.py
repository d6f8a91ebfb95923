"""The laws of OpenAI Responses with nothing stored, each from a documented or observed refusal."""

from __future__ import annotations

from collections.abc import Iterator

from stenolog.projections.requests.names import fits_id, fits_tool_name

from .law import Body, Finding, Law, asks_for_json_object, blank, is_object, law, says_json, unfit

ITEMS = frozenset(
    {
        "code_interpreter_call",
        "compaction",
        "file_search_call",
        "function_call",
        "function_call_output",
        "image_generation_call",
        "mcp_call",
        "mcp_list_tools",
        "message",
        "reasoning",
        "web_search_call",
    }
)
SAID = frozenset({"output_text", "refusal"})
SHOWN = frozenset({"input_text", "input_image", "input_file"})
WITHOUT_ID = frozenset({"function_call", "function_call_output", "message", "reasoning"})


def _items(body: Body, kind: str = "") -> Iterator[tuple[str, Body]]:
    """The items, or those of one type, each with its JSON pointer."""
    found = body.get("input", [])
    return ((f"/input/{i}", item) for i, item in enumerate(found) if kind in ("", item.get("type")))


def _is_own(item: Body) -> bool:
    """Whether the model said it; what it compacted stands for the words of all."""
    if item.get("type") == "message":
        return bool(item.get("role") == "assistant")
    return item.get("type") not in ("function_call_output", "compaction")


@law
def input_present(body: Body) -> Iterator[Finding]:
    """A request holds at least one item."""
    if not body.get("input"):
        yield "/input", "no item"


@law
def known_items(body: Body) -> Iterator[Finding]:
    """An item is of a known type."""
    for at, item in _items(body):
        if item.get("type") not in ITEMS:
            yield f"{at}/type", repr(item.get("type"))


@law
def known_roles(body: Body) -> Iterator[Finding]:
    """A message is the user's, the assistant's, or a developer's."""
    for at, item in _items(body, "message"):
        if item.get("role") not in ("user", "assistant", "developer", "system"):
            yield f"{at}/role", repr(item.get("role"))


@law
def nothing_stored(body: Body) -> Iterator[Finding]:
    """Nothing is stored, and nothing that is stored is relied on."""
    if body.get("store") is not False:
        yield "/store", repr(body.get("store"))
    for key in ("previous_response_id", "conversation", "prompt"):
        if key in body:
            yield f"/{key}", repr(body[key])


@law
def item_ids(body: Body) -> Iterator[Finding]:
    """Messages, calls, outputs and reasoning have no ids; those of other items are fit and unique."""
    seen: set[str] = set()
    for at, item in _items(body):
        id = item.get("id")
        if id is None:
            continue
        if item.get("type") in WITHOUT_ID or not fits_id(id, 64) or id in seen:
            yield f"{at}/id", repr(id)
        seen.add(id)


@law
def every_call_answered(body: Body) -> Iterator[Finding]:
    """Each call has exactly one output, behind it, and no message stands between them."""
    asked: dict[str, str] = {}
    for at, item in [*_items(body), ("", {"type": "message"})]:
        if item.get("type") == "function_call":
            asked[item["call_id"]] = at
        elif item.get("type") == "function_call_output":
            asked.pop(item.get("call_id", ""), "")
        elif item.get("type") == "message":
            for id, place in asked.items():
                yield place, f"call {id!r} has no output"
            asked.clear()


@law
def every_output_has_its_call(body: Body) -> Iterator[Finding]:
    """Each output answers a call before it, and no call twice."""
    asked: set[str] = set()
    for at, item in _items(body):
        if item.get("type") == "function_call":
            asked.add(item["call_id"])
        elif item.get("type") == "function_call_output":
            if item.get("call_id") not in asked:
                yield f"{at}/call_id", repr(item.get("call_id"))
            asked.discard(item.get("call_id", ""))


@law
def call_ids(body: Body) -> Iterator[Finding]:
    """The ids of calls are unique in the request, of letters, digits, _ and -, at most 40 long."""
    calls = _items(body, "function_call")
    yield from unfit(((f"{at}/call_id", call["call_id"]) for at, call in calls), fits_id)


@law
def tool_names(body: Body) -> Iterator[Finding]:
    """The names of tools are of letters, digits, _ and -, at most 64 long, and declared once."""
    for at, call in _items(body, "function_call"):
        if not fits_tool_name(call["name"]):
            yield f"{at}/name", repr(call["name"])
    tools = enumerate(body.get("tools", []))
    yield from unfit(((f"/tools/{i}/name", tool["name"]) for i, tool in tools), fits_tool_name)


@law
def arguments_are_objects(body: Body) -> Iterator[Finding]:
    """The arguments of a call are the text of a JSON object."""
    for at, call in _items(body, "function_call"):
        if not is_object(call["arguments"]):
            yield f"{at}/arguments", f"{call['arguments']!r:.60}"


@law
def content_present(body: Body) -> Iterator[Finding]:
    """A message says something, and no text in it is blank."""
    if blank(body.get("instructions")):
        yield "/instructions", "a blank text"
    for at, item in _items(body, "message"):
        content = item.get("content")
        if not content or blank(content):
            yield f"{at}/content", f"{content!r}"
        for k, part in enumerate(content if isinstance(content, list) else []):
            if blank(part.get("text")) or blank(part.get("refusal")):
                yield f"{at}/content/{k}", "a blank text"


@law
def parts_of_their_side(body: Body) -> Iterator[Finding]:
    """The assistant's parts are output_text and refusal; everybody else's are input_…, and outputs too."""
    for at, item in _items(body):
        key = "output" if item.get("type") == "function_call_output" else "content"
        if item.get("type") not in ("message", "function_call_output"):
            continue
        allowed = SAID if item.get("role") == "assistant" else SHOWN
        content = item.get(key)
        if not isinstance(content, str | list):
            yield f"{at}/{key}", type(content).__name__
        for k, part in enumerate(content if isinstance(content, list) else []):
            if part.get("type") not in allowed:
                yield f"{at}/{key}/{k}/type", repr(part.get("type"))


@law
def reasoning_is_encrypted(body: Body) -> Iterator[Finding]:
    """Reasoning is encrypted, and has a summary, if an empty one."""
    for at, item in _items(body, "reasoning"):
        if not item.get("encrypted_content"):
            yield f"{at}/encrypted_content", "none"
        if not isinstance(item.get("summary"), list):
            yield f"{at}/summary", repr(item.get("summary"))


@law
def reasoning_is_followed(body: Body) -> Iterator[Finding]:
    """Behind reasoning stands an item that the model made."""
    items = body.get("input", [])
    for (at, item), behind in zip(_items(body), [*items[1:], {"type": "message"}], strict=False):
        if item.get("type") == "reasoning" and not _is_own(behind):
            yield at, "nothing of the model's follows"


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
    """An answer that is to be a JSON object needs the word json among the items."""
    if asks_for_json_object(body.get("text", {}).get("format")) and not says_json(body.get("input")):
        yield "/text/format", "no item says json"


@law
def ends_with_something_to_answer(body: Body) -> Iterator[Finding]:
    """The last item is not the model's own."""
    items = body.get("input")
    if items and _is_own(items[-1]):
        yield f"/input/{len(items) - 1}", repr(items[-1].get("type"))


LAWS: tuple[Law, ...] = (
    input_present,
    known_items,
    known_roles,
    nothing_stored,
    item_ids,
    every_call_answered,
    every_output_has_its_call,
    call_ids,
    tool_names,
    arguments_are_objects,
    content_present,
    parts_of_their_side,
    reasoning_is_encrypted,
    reasoning_is_followed,
    tools_declared,
    json_is_said,
    ends_with_something_to_answer,
)
