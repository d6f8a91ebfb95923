"""The laws of OpenAI Responses with nothing stored, each from a documented or observed refusal."""

from __future__ import annotations

from collections.abc import Sequence

from stenolog.projections.formats import checks
from stenolog.projections.formats.chats import tools_declared
from stenolog.projections.formats.openai_chat.laws import tools_number
from stenolog.projections.messages.identifiers import fits_id, fits_tool_name

CALLS = frozenset({"function_call", "custom_tool_call", "tool_search_call"})
OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})
NAMED = frozenset({"function_call", "custom_tool_call"})
ANSWERED_BY = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "tool_search_call": "tool_search_output",
}
PHASES = frozenset({"commentary", "final_answer"})
ITEMS = (
    CALLS
    | OUTPUTS
    | frozenset(
        {
            "code_interpreter_call",
            "compaction",
            "file_search_call",
            "image_generation_call",
            "mcp_call",
            "mcp_list_tools",
            "message",
            "program",
            "program_output",
            "reasoning",
            "web_search_call",
        }
    )
)
SAID = frozenset({"output_text", "refusal"})
SHOWN = frozenset({"input_text", "input_image", "input_file"})
WITHOUT_ID = CALLS | OUTPUTS | frozenset({"message", "reasoning"})


def _is_own(item: checks.Body) -> bool:
    """Return whether the model wrote the item; a compaction does not count, as it covers all authors."""
    if item.get("type") == "message":
        return bool(item.get("role") == "assistant")
    return item.get("type") not in OUTPUTS | {"compaction"}


@checks.law
def input_present(body: checks.Body) -> checks.Findings:
    """A request holds at least one item."""
    if not body.get("input"):
        yield "/input", "no item"


@checks.per_message
def known_items(at: str, item: checks.Body) -> checks.Findings:
    """An item is of a known type."""
    if item.get("type") not in ITEMS:
        yield f"{at}/type", repr(item.get("type"))


@checks.per_message
def known_roles(at: str, item: checks.Body) -> checks.Findings:
    """A message is the user's, the assistant's, or a developer's."""
    is_said = item.get("type") == "message"
    if is_said and item.get("role") not in ("user", "assistant", "developer", "system"):
        yield f"{at}/role", repr(item.get("role"))


@checks.law
def nothing_stored(body: checks.Body) -> checks.Findings:
    """Nothing is stored, and nothing that is stored is relied on."""
    if body.get("store") is not False:
        yield "/store", repr(body.get("store"))
    for key in ("previous_response_id", "conversation", "prompt"):
        if key in body:
            yield f"/{key}", repr(body[key])


@checks.stateful(checks.PersistentSet)
def item_ids(seen: checks.PersistentSet, at: str, item: checks.Body) -> checks.Steps:
    """Messages, calls, outputs and reasoning have no ids; those of other items are fit and unique."""
    id = item.get("id")
    if id is None:
        return seen
    if item.get("type") in WITHOUT_ID or not fits_id(id, 64) or id in seen:
        yield f"{at}/id", repr(id)
    return seen.plus(id)


@checks.stateful(dict, waits=True)
def every_call_answered(asked: dict[str, str], at: str, item: checks.Body) -> checks.Steps:
    """Each call has exactly one output, after it, and no message between them."""
    if item.get("type") in CALLS:
        return {**asked, item["call_id"]: at}
    if item.get("type") in OUTPUTS:
        return {id: place for id, place in asked.items() if id != item.get("call_id", "")}
    if item is not checks.END and item.get("type") != "message":
        return asked
    for id, place in asked.items():
        yield place, f"call {id!r} has no output"
    return {}


@checks.stateful(dict)
def every_output_has_its_call(asked: dict[str, str], at: str, item: checks.Body) -> checks.Steps:
    """Each output answers a call of its own kind before it, and no call twice."""
    kind, id = item.get("type"), item.get("call_id")
    if kind in CALLS:
        return {**asked, item["call_id"]: ANSWERED_BY[kind]}
    if kind not in OUTPUTS:
        return asked
    if id not in asked:
        yield f"{at}/call_id", repr(id)
    elif asked[id] != kind:
        yield f"{at}/type", f"{kind!r}, expected {asked[id]!r}"
    return {other: wanted for other, wanted in asked.items() if other != id}


@checks.stateful(checks.PersistentSet)
def call_ids(seen: checks.PersistentSet, at: str, item: checks.Body) -> checks.Steps:
    """The ids of calls are unique in the request, of letters, digits, _ and -, at most 40 long."""
    if item.get("type") not in CALLS:
        return seen
    return (yield from checks.unfit([(f"{at}/call_id", item["call_id"])], fits_id, seen))


def _unfit_names(at: str, item: checks.Body) -> checks.Findings:
    if item.get("type") in NAMED and not fits_tool_name(item["name"]):
        yield f"{at}/name", repr(item["name"])


@checks.collected(_unfit_names)
def tool_names(body: checks.Body, called: Sequence[checks.Finding]) -> checks.Findings:
    """The names of tools are of letters, digits, _ and -, at most 64 long, and declared once."""
    yield from called
    tools = enumerate(body.get("tools", []))
    # Those of OpenAI's own have no name.
    named = ((i, tool) for i, tool in tools if tool.get("type", "function") in ("function", "custom"))
    yield from checks.unfit(((f"/tools/{i}/name", tool["name"]) for i, tool in named), fits_tool_name)


@checks.per_message
def arguments_are_objects(at: str, item: checks.Body) -> checks.Findings:
    """The arguments of a function's call are the text of a JSON object; a custom tool's input is a text."""
    if item.get("type") == "custom_tool_call" and not isinstance(item.get("input"), str):
        yield f"{at}/input", f"{item.get('input')!r:.60}"
    if item.get("type") == "tool_search_call" and not isinstance(item.get("arguments"), dict):
        yield f"{at}/arguments", f"{item.get('arguments')!r:.60}"
    if item.get("type") == "function_call" and not checks.is_object(item["arguments"]):
        yield f"{at}/arguments", f"{item['arguments']!r:.60}"


def _unsaid(at: str, item: checks.Body) -> checks.Findings:
    content = item.get("content")
    if item.get("type") != "message":
        return
    if not content or checks.blank(content):
        yield f"{at}/content", f"{content!r}"
    for k, part in enumerate(content if isinstance(content, list) else []):
        if checks.blank(part.get("text")) or checks.blank(part.get("refusal")):
            yield f"{at}/content/{k}", "a blank text"


@checks.collected(_unsaid)
def content_present(body: checks.Body, unsaid: Sequence[checks.Finding]) -> checks.Findings:
    """A message says something, and no text in it is blank."""
    if checks.blank(body.get("instructions")):
        yield "/instructions", "a blank text"
    yield from unsaid


@checks.per_message
def parts_of_their_side(at: str, item: checks.Body) -> checks.Findings:
    """The assistant's parts are output_text and refusal; all others' are input_…, and outputs too."""
    key = "output" if item.get("type") in OUTPUTS else "content"
    if item.get("type") not in ("message", "function_call_output", "custom_tool_call_output"):
        return
    allowed = SAID if item.get("role") == "assistant" else SHOWN
    content = item.get(key)
    if not isinstance(content, str | list):
        yield f"{at}/{key}", type(content).__name__
    for k, part in enumerate(content if isinstance(content, list) else []):
        if part.get("type") not in allowed:
            yield f"{at}/{key}/{k}/type", repr(part.get("type"))


@checks.per_message
def reasoning_is_encrypted(at: str, item: checks.Body) -> checks.Findings:
    """Reasoning is encrypted, and has a summary, if an empty one."""
    if item.get("type") != "reasoning":
        return
    if not item.get("encrypted_content"):
        yield f"{at}/encrypted_content", "none"
    if not isinstance(item.get("summary"), list):
        yield f"{at}/summary", repr(item.get("summary"))


@checks.stateful(str, waits=True)
def reasoning_is_followed(thought: str, at: str, item: checks.Body) -> checks.Steps:
    """After reasoning comes an item that the model made."""
    if thought and (item is checks.END or not _is_own(item)):
        yield thought, "nothing of the model's follows"
    return at if item.get("type") == "reasoning" else ""


@checks.per_message
def phases(at: str, item: checks.Body) -> checks.Findings:
    """A phase is commentary or a final answer, only of the assistant's messages."""
    is_own = item.get("type") == "message" and item.get("role") == "assistant"
    if "phase" in item and not (is_own and item["phase"] in PHASES):
        yield f"{at}/phase", repr(item["phase"])


@checks.per_message
def namespaces(at: str, item: checks.Body) -> checks.Findings:
    """A namespace is a text, only of a function's call."""
    if "namespace" not in item:
        return
    given = item["namespace"]
    if item.get("type") != "function_call" or not isinstance(given, str) or not given:
        yield f"{at}/namespace", repr(given)


@checks.law
def json_is_said(body: checks.Body) -> checks.Findings:
    """An answer that is to be a JSON object needs the word json among the items."""
    if checks.asks_for_json_object(body.get("text", {}).get("format")) and not checks.says_json(
        checks.conversation(body, "input")
    ):
        yield "/text/format", "no item says json"


@checks.law
def ends_with_something_to_answer(body: checks.Body) -> checks.Findings:
    """The last item is not the model's own."""
    items = body.get("input")
    if items and _is_own(items[-1]):
        yield f"/input/{len(items) - 1}", repr(items[-1].get("type"))


LAWS: tuple[checks.Law, ...] = (
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
    phases,
    namespaces,
    tools_declared,
    json_is_said,
    ends_with_something_to_answer,
    tools_number,
)
