"""The laws of Anthropic Messages, each from a documented or observed refusal."""

from __future__ import annotations

from collections.abc import Iterator

from stenolog.projections.requests.names import fits_id, fits_tool_name
from stenolog.projections.requests.wires.families import takes_system_turns

from .law import Body, Finding, Law, blank, law, messages, unfit

THINKING = frozenset({"thinking", "redacted_thinking"})
SMALLEST_BUDGET = 1024


def _blocks(at: str, message: Body, kind: str = "") -> Iterator[tuple[str, Body]]:
    content = message.get("content")
    for k, block in enumerate(content if isinstance(content, list) else []):
        if not kind or block.get("type") == kind:
            yield f"{at}/content/{k}", block


def _all_blocks(body: Body, kind: str = "") -> Iterator[tuple[str, Body]]:
    for at, message in messages(body):
        yield from _blocks(at, message, kind)


@law
def messages_present(body: Body) -> Iterator[Finding]:
    """A request holds at least one message."""
    if not body.get("messages"):
        yield "/messages", "no message"


@law
def token_limit(body: Body) -> Iterator[Finding]:
    """It names a token limit for the answer."""
    if type(body.get("max_tokens")) is not int or body["max_tokens"] < 1:
        yield "/max_tokens", repr(body.get("max_tokens"))


@law
def roles_alternate(body: Body) -> Iterator[Finding]:
    """User and assistant take turns, and the user begins; a system turn may stand behind the user's."""
    expected = {"user"}
    for at, message in messages(body):
        role = message.get("role")
        if role not in expected:
            yield f"{at}/role", f"{role!r}, expected {' or '.join(sorted(expected))}"
        expected = {"assistant", "system"} if role == "user" else {"user"}
        expected = {"assistant"} if role == "system" else expected


@law
def system_turns(body: Body) -> Iterator[Finding]:
    """A system turn is text, and for a model that takes one."""
    for at, message in messages(body):
        if message.get("role") != "system":
            continue
        if not takes_system_turns(str(body.get("model"))):
            yield f"{at}/role", f"for model {body.get('model')!r}"
        for place, block in _blocks(at, message):
            if block["type"] != "text":
                yield f"{place}/type", block["type"]


@law
def every_call_answered(body: Body) -> Iterator[Finding]:
    """Each tool_use has exactly one tool_result in the turn behind it."""
    turns = body.get("messages", [])
    for (at, message), answer in zip(messages(body), [*turns[1:], {}], strict=False):
        results = [block.get("tool_use_id") for _, block in _blocks("", answer, "tool_result")]
        for place, block in _blocks(at, message, "tool_use"):
            if results.count(block["id"]) != 1:
                yield place, f"{results.count(block['id'])} results for {block['id']!r}"


@law
def every_result_has_its_call(body: Body) -> Iterator[Finding]:
    """Each tool_result answers a tool_use of the turn before it."""
    turns = body.get("messages", [])
    for (at, message), before in zip(messages(body), [{}, *turns[:-1]], strict=False):
        called = {block["id"] for _, block in _blocks("", before, "tool_use")}
        for place, block in _blocks(at, message, "tool_result"):
            if block.get("tool_use_id") not in called:
                yield f"{place}/tool_use_id", repr(block.get("tool_use_id"))


@law
def results_first(body: Body) -> Iterator[Finding]:
    """Tool results come first in their turn."""
    for at, message in messages(body):
        other = False
        for place, block in _blocks(at, message):
            if block["type"] != "tool_result":
                other = True
            elif other:
                yield place, "a result behind other content"


@law
def call_ids(body: Body) -> Iterator[Finding]:
    """The ids of calls are unique in the request, of letters, digits, _ and -, at most 40 long."""
    calls = _all_blocks(body, "tool_use")
    yield from unfit(((f"{place}/id", block["id"]) for place, block in calls), fits_id)


@law
def tool_names(body: Body) -> Iterator[Finding]:
    """The names of tools are of letters, digits, _ and -, at most 64 long, and declared once."""
    for place, block in _all_blocks(body, "tool_use"):
        if not fits_tool_name(block["name"]):
            yield f"{place}/name", repr(block["name"])
    tools = enumerate(body.get("tools", []))
    yield from unfit(((f"/tools/{i}/name", tool["name"]) for i, tool in tools), fits_tool_name)


@law
def input_is_an_object(body: Body) -> Iterator[Finding]:
    """The input of a tool_use is an object."""
    for place, block in _all_blocks(body, "tool_use"):
        if not isinstance(block["input"], dict):
            yield f"{place}/input", type(block["input"]).__name__


@law
def nothing_blank(body: Body) -> Iterator[Finding]:
    """No message is empty, and no text is blank."""
    system = body.get("system")
    if any(blank(block["text"]) for block in system) if isinstance(system, list) else blank(system):
        yield "/system", "a blank text"
    for at, message in messages(body):
        if not message.get("content") or blank(message.get("content")):
            yield f"{at}/content", "nothing"
    for place, block in _all_blocks(body, "text"):
        if blank(block["text"]):
            yield f"{place}/text", "a blank text"


@law
def thinking_is_signed(body: Body) -> Iterator[Finding]:
    """Thinking is signed."""
    for place, block in _all_blocks(body, "thinking"):
        if not block.get("signature"):
            yield f"{place}/signature", "none"


@law
def no_trailing_thinking(body: Body) -> Iterator[Finding]:
    """An assistant's turn does not end in thinking."""
    for at, message in messages(body):
        blocks = list(_blocks(at, message))
        if message.get("role") == "assistant" and blocks and blocks[-1][1]["type"] in THINKING:
            yield blocks[-1][0], blocks[-1][1]["type"]


@law
def errors_are_text(body: Body) -> Iterator[Finding]:
    """The result of a failed tool is text, and not nothing."""
    for place, block in _all_blocks(body, "tool_result"):
        if not block.get("is_error"):
            continue
        content = block.get("content")
        if not content:
            yield f"{place}/content", "nothing"
        for k, part in enumerate(content if isinstance(content, list) else []):
            if part["type"] != "text":
                yield f"{place}/content/{k}/type", part["type"]


@law
def tools_declared(body: Body) -> Iterator[Finding]:
    """Where there are tool blocks, tools are declared."""
    used = any(block["type"] in ("tool_use", "tool_result") for _, block in _all_blocks(body))
    if (used or "tool_choice" in body) and not body.get("tools"):
        yield "/tools", "none"


@law
def own_tools_closed(body: Body) -> Iterator[Finding]:
    """A call of Anthropic's own tools has its result in the same turn, and a result its call before it."""
    for at, message in messages(body):
        open_calls: dict[str, str] = {}
        for place, block in _blocks(at, message):
            kind = str(block["type"])
            if kind == "server_tool_use":
                open_calls[block["id"]] = place
            elif (
                kind.endswith("_tool_result") and open_calls.pop(str(block.get("tool_use_id")), None) is None
            ):
                yield f"{place}/tool_use_id", f"no call {block.get('tool_use_id')!r}"
        for id, place in open_calls.items():
            yield place, f"no result for {id!r}"


def _thinks_on_a_budget(body: Body) -> bool:
    thinking = body.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") == "enabled"


@law
def thinking_budget(body: Body) -> Iterator[Finding]:
    """A thinking budget is at least 1,024 tokens, and smaller than the token limit."""
    budget = body["thinking"].get("budget_tokens") if _thinks_on_a_budget(body) else SMALLEST_BUDGET
    if type(budget) is not int or budget < SMALLEST_BUDGET:
        yield "/thinking/budget_tokens", repr(budget)
    elif _thinks_on_a_budget(body) and budget >= body.get("max_tokens", 0):
        yield "/max_tokens", f"{body.get('max_tokens')!r}, with a thinking budget of {budget}"


@law
def no_force_on_a_thinker(body: Body) -> Iterator[Finding]:
    """Who thinks on a budget is not forced to call a tool."""
    forced = body.get("tool_choice", {}).get("type") in ("any", "tool")
    if forced and _thinks_on_a_budget(body):
        yield "/tool_choice/type", repr(body["tool_choice"]["type"])


@law
def four_breakpoints(body: Body) -> Iterator[Finding]:
    """At most four breakpoints for the cache are set, none of them on thinking."""
    system = body.get("system")
    places = [("", body), *((f"/tools/{i}", tool) for i, tool in enumerate(body.get("tools", [])))]
    places += [(f"/system/{i}", block) for i, block in enumerate(system if isinstance(system, list) else [])]
    places += _all_blocks(body)
    marked = [(at, block.get("type")) for at, block in places if "cache_control" in block]
    yield from ((f"{at}/cache_control", str(kind)) for at, kind in marked if kind in THINKING)
    yield from ((f"{at}/cache_control", "a fifth breakpoint") for at, _ in marked[4:])


@law
def ends_with_a_user_turn(body: Body) -> Iterator[Finding]:
    """The conversation ends with a turn of the user, or with a system turn behind it."""
    turns = body.get("messages")
    if turns and turns[-1].get("role") == "assistant":
        yield f"/messages/{len(turns) - 1}/role", repr(turns[-1].get("role"))


LAWS: tuple[Law, ...] = (
    messages_present,
    token_limit,
    roles_alternate,
    system_turns,
    every_call_answered,
    every_result_has_its_call,
    results_first,
    call_ids,
    tool_names,
    input_is_an_object,
    nothing_blank,
    thinking_is_signed,
    no_trailing_thinking,
    errors_are_text,
    tools_declared,
    own_tools_closed,
    thinking_budget,
    no_force_on_a_thinker,
    four_breakpoints,
    ends_with_a_user_turn,
)
