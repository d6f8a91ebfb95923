"""The laws of Anthropic Messages, each from a documented or observed refusal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stenolog.projections.formats import checks
from stenolog.projections.formats.model_families import takes_system_turns
from stenolog.projections.messages.identifiers import fits_id, fits_tool_name

from . import parameters as anthropic_parameters

THINKING = frozenset({"thinking", "redacted_thinking"})
SMALLEST_BUDGET = 1024
MAY_FOLLOW = {"user": ("assistant", "system"), "system": ("assistant",)}
"""The roles after a role; after any other it is the user's turn."""


def _blocks(at: str, message: checks.Body, kind: str = "") -> Iterator[tuple[str, checks.Body]]:
    content = message.get("content")
    for k, block in enumerate(content if isinstance(content, list) else []):
        if not kind or block.get("type") == kind:
            yield f"{at}/content/{k}", block


@checks.law
def messages_present(body: checks.Body) -> checks.Findings:
    """A request holds at least one message."""
    if not body.get("messages"):
        yield "/messages", "no message"


@checks.law
def token_limit(body: checks.Body) -> checks.Findings:
    """It names a token limit for the answer."""
    if type(body.get("max_tokens")) is not int or body["max_tokens"] < 1:
        yield "/max_tokens", repr(body.get("max_tokens"))


@checks.stateful(str)
def roles_alternate(before: str, at: str, message: checks.Body) -> checks.Steps:
    """User and assistant take turns, and the user begins; a system turn may follow the user's."""
    role, expected = message.get("role"), MAY_FOLLOW.get(before, ("user",))
    if role not in expected:
        yield f"{at}/role", f"{role!r}, expected {' or '.join(expected)}"
    return str(role)


def _system(at: str, message: checks.Body) -> checks.Findings:
    """Yield each system turn, with nothing found, and the part in it that is no text."""
    if message.get("role") == "system":
        yield f"{at}/role", ""
        for place, block in _blocks(at, message):
            if block["type"] != "text":
                yield f"{place}/type", block["type"]


@checks.collected(_system)
def system_turns(body: checks.Body, turns: Sequence[checks.Finding]) -> checks.Findings:
    """A system turn is text, and for a model that takes one."""
    takes_them = takes_system_turns(str(body.get("model")))
    for place, found in turns:
        if found or not takes_them:
            yield place, found or f"for model {body.get('model')!r}"


@checks.stateful(tuple, waits=True)
def every_call_answered(asked: tuple[tuple[str, str], ...], at: str, message: checks.Body) -> checks.Steps:
    """Each tool_use has exactly one tool_result in the next turn."""
    results = [block.get("tool_use_id") for _, block in _blocks(at, message, "tool_result")]
    for place, id in asked:
        if results.count(id) != 1:
            yield place, f"{results.count(id)} results for {id!r}"
    return tuple((place, block["id"]) for place, block in _blocks(at, message, "tool_use"))


@checks.stateful(tuple)
def every_result_has_its_call(called: tuple[str, ...], at: str, message: checks.Body) -> checks.Steps:
    """Each tool_result answers a tool_use of the turn before it."""
    for place, block in _blocks(at, message, "tool_result"):
        if block.get("tool_use_id") not in called:
            yield f"{place}/tool_use_id", repr(block.get("tool_use_id"))
    return tuple(block["id"] for _, block in _blocks(at, message, "tool_use"))


@checks.per_message
def results_first(at: str, message: checks.Body) -> checks.Findings:
    """Tool results come first in their turn."""
    other = False
    for place, block in _blocks(at, message):
        if block["type"] != "tool_result":
            other = True
        elif other:
            yield place, "a result behind other content"


@checks.stateful(checks.PersistentSet)
def call_ids(seen: checks.PersistentSet, at: str, message: checks.Body) -> checks.Steps:
    """The ids of calls are unique in the request, of letters, digits, _ and -, at most 40 long."""
    named = ((f"{place}/id", block["id"]) for place, block in _blocks(at, message, "tool_use"))
    return (yield from checks.unfit(named, fits_id, seen))


def _unfit_names(at: str, message: checks.Body) -> checks.Findings:
    for place, block in _blocks(at, message, "tool_use"):
        if not fits_tool_name(block["name"]):
            yield f"{place}/name", repr(block["name"])


@checks.collected(_unfit_names)
def tool_names(body: checks.Body, called: Sequence[checks.Finding]) -> checks.Findings:
    """The names of tools are of letters, digits, _ and -, at most 64 long, and declared once."""
    yield from called
    tools = enumerate(body.get("tools", []))
    named = ((f"/tools/{i}/name", tool["name"]) for i, tool in tools if tool.get("type") != "mcp_toolset")
    yield from checks.unfit(named, fits_tool_name)


@checks.per_message
def input_is_an_object(at: str, message: checks.Body) -> checks.Findings:
    """The input of a tool_use is an object."""
    for place, block in _blocks(at, message, "tool_use"):
        if not isinstance(block["input"], dict):
            yield f"{place}/input", type(block["input"]).__name__


def _blanks(at: str, message: checks.Body) -> checks.Findings:
    if not message.get("content") or checks.blank(message.get("content")):
        yield f"{at}/content", "nothing"
    for place, block in _blocks(at, message, "text"):
        if checks.blank(block["text"]):
            yield f"{place}/text", "a blank text"


@checks.collected(_blanks)
def nothing_blank(body: checks.Body, blanks: Sequence[checks.Finding]) -> checks.Findings:
    """No message is empty, and no text is blank."""
    system = body.get("system")
    texts = [block["text"] for block in system] if isinstance(system, list) else [system]
    if any(map(checks.blank, texts)):
        yield "/system", "a blank text"
    yield from blanks


@checks.per_message
def thinking_is_signed(at: str, message: checks.Body) -> checks.Findings:
    """Thinking is signed."""
    for place, block in _blocks(at, message, "thinking"):
        if not block.get("signature"):
            yield f"{place}/signature", "none"


@checks.per_message
def no_trailing_thinking(at: str, message: checks.Body) -> checks.Findings:
    """An assistant's turn does not end in thinking."""
    blocks = list(_blocks(at, message))
    if message.get("role") == "assistant" and blocks and blocks[-1][1]["type"] in THINKING:
        yield blocks[-1][0], blocks[-1][1]["type"]


@checks.per_message
def errors_are_text(at: str, message: checks.Body) -> checks.Findings:
    """The result of a failed tool is text, and not nothing."""
    for place, block in _blocks(at, message, "tool_result"):
        if not block.get("is_error"):
            continue
        content = block.get("content")
        if not content:
            yield f"{place}/content", "nothing"
        for k, part in enumerate(content if isinstance(content, list) else []):
            if part["type"] != "text":
                yield f"{place}/content/{k}/type", part["type"]


def _tool_blocks(at: str, message: checks.Body) -> checks.Findings:
    for place, block in _blocks(at, message):
        if block["type"] in ("tool_use", "tool_result"):
            yield place, block["type"]


@checks.collected(_tool_blocks)
def tools_declared(body: checks.Body, used: Sequence[checks.Finding]) -> checks.Findings:
    """Tools are declared if there are tool blocks."""
    if (used or "tool_choice" in body) and not body.get("tools"):
        yield "/tools", "none"


OWN_CALLS = ("server_tool_use", "mcp_tool_use")
"""The calls of tools that Anthropic runs itself."""


def _unpaired_own_tools(at: str, message: checks.Body) -> checks.Findings:
    open_calls: dict[str, str] = {}
    for place, block in _blocks(at, message):
        kind = str(block["type"])
        if kind in OWN_CALLS:
            open_calls[block["id"]] = place
        elif kind.endswith("_tool_result") and open_calls.pop(str(block.get("tool_use_id")), None) is None:
            yield f"{place}/tool_use_id", f"no call {block.get('tool_use_id')!r}"
    for id, place in open_calls.items():
        yield place, f"no result for {id!r}"


@checks.collected(_unpaired_own_tools)
def own_tools_closed(body: checks.Body, found: Sequence[checks.Finding]) -> checks.Findings:
    """A call of Anthropic's own tools has its result in its turn, unless that pauses or waits for ours."""
    messages = list(body.get("messages") or ())
    waits = "container" in body and bool(messages) and messages[-1].get("role") == "user"
    last = f"/messages/{len(messages) - 1}/"
    ids = [(*each, each[1].rpartition(" ")[2], each[1].startswith("no result")) for each in found]
    opened, ended = ({id for *_, id, is_open in ids if is_open is which} for which in (True, False))
    for place, what, id, is_open in ids:
        if id not in opened & ended and not (is_open and (waits or place.startswith(last))):
            yield place, what


def _thinks_on_a_budget(body: checks.Body) -> bool:
    thinking = body.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") == "enabled"


@checks.law
def thinking_budget(body: checks.Body) -> checks.Findings:
    """A thinking budget is at least 1,024 tokens, and smaller than the token limit."""
    budget = body["thinking"].get("budget_tokens") if _thinks_on_a_budget(body) else SMALLEST_BUDGET
    if type(budget) is not int or budget < SMALLEST_BUDGET:
        yield "/thinking/budget_tokens", repr(budget)
    elif _thinks_on_a_budget(body) and budget >= body.get("max_tokens", 0):
        yield "/max_tokens", f"{body.get('max_tokens')!r}, with a thinking budget of {budget}"


@checks.law
def no_force_on_a_thinker(body: checks.Body) -> checks.Findings:
    """A model with a thinking budget is not forced to call a tool."""
    forced = body.get("tool_choice", {}).get("type") in ("any", "tool")
    if forced and _thinks_on_a_budget(body):
        yield "/tool_choice/type", repr(body["tool_choice"]["type"])


def _marked(at: str, message: checks.Body) -> checks.Findings:
    return ((place, block["type"]) for place, block in _blocks(at, message) if "cache_control" in block)


@checks.collected(_marked)
def four_breakpoints(body: checks.Body, marked: Sequence[checks.Finding]) -> checks.Findings:
    """At most four breakpoints for the cache are set, none of them on thinking."""
    system = body.get("system")
    places = [("", body), *((f"/tools/{i}", tool) for i, tool in enumerate(body.get("tools", [])))]
    places += [(f"/system/{i}", block) for i, block in enumerate(system if isinstance(system, list) else [])]
    around = [(at, str(block.get("type"))) for at, block in places if "cache_control" in block]
    yield from ((f"{at}/cache_control", kind) for at, kind in marked if kind in THINKING)
    yield from ((f"{at}/cache_control", "a fifth breakpoint") for at, _ in [*around, *marked][4:])


@checks.law
def ends_with_a_user_turn(body: checks.Body) -> checks.Findings:
    """The conversation ends with a turn of the user, a system turn after it, or one paused in its tools."""
    turns = body.get("messages") or [{}]
    is_last = turns[-1].get("role") == "assistant"
    if is_last and not any(block["type"] in OWN_CALLS for _, block in _blocks("", turns[-1])):
        yield f"/messages/{len(turns) - 1}/role", repr(turns[-1].get("role"))


@checks.collected(anthropic_parameters.pictures)
def pictures_and_bytes(body: checks.Body, shown: Sequence[checks.Finding]) -> checks.Findings:
    """At most 100 pictures (600 with a context of more than 200k), of 2,000 px beyond 20, in 32 MB."""
    yield from anthropic_parameters.beyond_limits(body, shown)


LAWS: tuple[checks.Law, ...] = (
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
    pictures_and_bytes,
)
