"""The laws of Gemini's generateContent, each from a documented or observed refusal.

Consecutive contents of one role are one turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from stenolog.projections.formats import checks
from stenolog.projections.formats.model_families import since_gemini_3

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}")
DATA = frozenset(
    {
        "text",
        "inlineData",
        "fileData",
        "functionCall",
        "functionResponse",
        "executableCode",
        "codeExecutionResult",
        "toolCall",
        "toolResponse",
    }
)
"""Keys of which a part has exactly one."""
ABOUT = frozenset({"thought", "thoughtSignature"})
"""Keys that a part may have beside that one."""


Named: TypeAlias = tuple[str, str, str]
"""The place of a call or a response, its id and its name."""


class Turns(NamedTuple):
    """The current turn's role, calls and responses; `asked` are the previous turn's calls."""

    role: str = ""
    calls: tuple[Named, ...] = ()
    responses: tuple[Named, ...] = ()
    asked: tuple[Named, ...] = ()

    def after(self, at: str, content: checks.Body) -> Turns:
        role, calls = str(content.get("role")), _named_parts(at, content, "functionCall")
        responses = _named_parts(at, content, "functionResponse")
        if role != self.role:
            return Turns(role, calls, responses, self.calls)
        return Turns(role, self.calls + calls, self.responses + responses, self.asked)

    def unanswered(self) -> checks.Findings:
        """Yield a finding if the turn does not answer the calls of the turn before it."""
        if self.asked and _ids(self.asked) != _ids(self.responses):
            yield self.asked[0][0], f"{len(self.responses)} responses to {len(self.asked)} calls"


def _ids(named: Iterable[Named]) -> list[tuple[str, str]]:
    return sorted((id, name) for _, id, name in named)


def _named_parts(at: str, content: checks.Body, kind: str) -> tuple[Named, ...]:
    return tuple(
        (place, str(part[kind].get("id")), str(part[kind].get("name")))
        for place, part in _parts(at, content, kind)
    )


def _parts(at: str, content: checks.Body, kind: str = "") -> Iterator[tuple[str, checks.Body]]:
    found = enumerate(content.get("parts") or [])
    return ((f"{at}/parts/{k}", part) for k, part in found if not kind or kind in part)


def _since_3(body: checks.Body) -> bool:
    return since_gemini_3(str(body.get("model", "")))


def _empty(at: str, content: checks.Body) -> checks.Findings:
    if not content.get("parts"):
        yield f"{at}/parts", "no part"


@checks.collected(_empty)
def contents_present(body: checks.Body, empty: Sequence[checks.Finding]) -> checks.Findings:
    """A request holds at least one content, and a content at least one part."""
    if not body.get("contents"):
        yield "/contents", "no content"
    yield from empty


@checks.per_message
def known_roles(at: str, content: checks.Body) -> checks.Findings:
    """A content is the user's or the model's."""
    if content.get("role") not in ("user", "model"):
        yield f"{at}/role", repr(content.get("role"))


@checks.per_message
def one_thing_each(at: str, content: checks.Body) -> checks.Findings:
    """A part is one thing: a text, a medium, a call, a response, or what Gemini's own tools did."""
    for place, part in _parts(at, content):
        if len(part.keys() & DATA) != 1 or part.keys() - DATA - ABOUT:
            yield place, ", ".join(part) or "nothing"


@checks.per_message
def calls_by_the_model(at: str, content: checks.Body) -> checks.Findings:
    """The model calls, and the user responds."""
    role = str(content.get("role"))
    for kind, its_role in (("functionCall", "model"), ("functionResponse", "user")):
        if role != its_role:
            found = _parts(at, content, kind)
            yield from ((f"{place}/{kind}", f"in a turn of {role!r}") for place, _ in found)


@checks.stateful(Turns, waits=True)
def every_call_answered(turns: Turns, at: str, content: checks.Body) -> checks.Steps:
    """A turn has as many responses as the turn before it has calls, and to the same ids."""
    if content is checks.END:
        yield from turns.unanswered()
        yield from Turns(asked=turns.calls).unanswered()
        return turns
    now = turns.after(at, content)
    if now.role != turns.role:
        yield from turns.unanswered()
    return now


@checks.stateful(Turns)
def every_response_has_its_call(turns: Turns, at: str, content: checks.Body) -> checks.Steps:
    """A response is in the turn after a turn that calls."""
    now = turns.after(at, content)
    if not now.asked:
        yield from ((place, "no call before it") for place, _ in _parts(at, content, "functionResponse"))
    return now


@checks.stateful(str)
def responses_apart(before: str, at: str, content: checks.Body) -> checks.Steps:
    """Responses come first in their turn, in one content of their own."""
    kinds = ["functionResponse" in part for _, part in _parts(at, content)]
    if any(kinds) and (not all(kinds) or before != "model"):
        yield f"{at}/parts", "other things with the responses"
    return str(content.get("role"))


@checks.law
def calls_come_after_the_user(body: checks.Body) -> checks.Findings:
    """The user begins, so that a turn that calls follows one of the user's."""
    if body.get("contents") and body["contents"][0].get("role") == "model":
        yield "/contents/0/role", "model"


@checks.stateful(checks.PersistentSet)
def call_ids(seen: checks.PersistentSet, at: str, content: checks.Body) -> checks.Steps:
    """The ids of calls are unique in the request."""
    for place, part in _parts(at, content, "functionCall"):
        id = part["functionCall"].get("id")
        if id in seen:
            yield f"{place}/functionCall/id", repr(id)
        seen = seen.plus(id)
    return seen


def _unfit_names(at: str, content: checks.Body) -> checks.Findings:
    for kind in ("functionCall", "functionResponse"):
        for place, part in _parts(at, content, kind):
            if not _fits(str(part[kind].get("name", ""))):
                yield f"{place}/{kind}/name", repr(part[kind].get("name"))


def _fits(name: str) -> bool:
    return NAME.fullmatch(name) is not None


@checks.collected(_unfit_names)
def function_names(body: checks.Body, called: Sequence[checks.Finding]) -> checks.Findings:
    """The names of functions begin with a letter or _, are at most 64 long, and declared once."""
    yield from called
    declared = (
        (f"/tools/{i}/functionDeclarations/{k}/name", str(function.get("name", "")))
        for i, tool in enumerate(body.get("tools", []))
        for k, function in enumerate(tool.get("functionDeclarations", []))
    )
    yield from checks.unfit(declared, _fits)


@checks.per_message
def objects_both_ways(at: str, content: checks.Body) -> checks.Findings:
    """The arguments of a call and what a response says are objects."""
    for kind, key in (("functionCall", "args"), ("functionResponse", "response")):
        for place, part in _parts(at, content, kind):
            if not isinstance(part[kind].get(key), dict):
                yield f"{place}/{kind}/{key}", type(part[kind].get(key)).__name__


def _unsigned(at: str, content: checks.Body) -> checks.Findings:
    calls = list(_parts(at, content, "functionCall"))
    if calls and not calls[0][1].get("thoughtSignature"):
        yield f"{calls[0][0]}/thoughtSignature", "none"


@checks.collected(_unsigned)
def calls_are_signed(body: checks.Body, unsigned: Sequence[checks.Finding]) -> checks.Findings:
    """From Gemini 3 on, the first call of each content of the model's is signed."""
    if _since_3(body):
        yield from unsigned


def _blanks(at: str, content: checks.Body) -> checks.Findings:
    for place, part in _parts(at, content, "text"):
        if checks.blank(part["text"]) and not part.get("thoughtSignature"):
            yield f"{place}/text", "a blank text"


@checks.collected(_blanks)
def nothing_blank(body: checks.Body, blanks: Sequence[checks.Finding]) -> checks.Findings:
    """No text is blank, save an empty one that is there for its signature."""
    parts = body.get("systemInstruction", {}).get("parts", [])
    if any(checks.blank(part.get("text", " ")) for part in parts):
        yield "/systemInstruction/parts", "a blank text, or none"
    yield from blanks


@checks.law
def tools_declared(body: checks.Body) -> checks.Findings:
    """Nothing chooses among functions if none is declared."""
    declared = any(tool.get("functionDeclarations") for tool in body.get("tools", []))
    if "toolConfig" in body and not declared:
        yield "/toolConfig", "no functions"


@checks.law
def json_without_tools(body: checks.Body) -> checks.Findings:
    """Before Gemini 3, there is no answer in JSON beside functions."""
    wanted = body.get("generationConfig", {}).get("responseMimeType") == "application/json"
    if wanted and body.get("tools") and not _since_3(body):
        yield "/generationConfig/responseMimeType", "application/json"


@checks.law
def ends_with_a_user_turn(body: checks.Body) -> checks.Findings:
    """The conversation ends with a turn of the user."""
    turns = body.get("contents")
    if turns and turns[-1].get("role") != "user":
        yield f"/contents/{len(turns) - 1}/role", repr(turns[-1].get("role"))


LAWS: tuple[checks.Law, ...] = (
    contents_present,
    known_roles,
    one_thing_each,
    calls_by_the_model,
    every_call_answered,
    every_response_has_its_call,
    responses_apart,
    calls_come_after_the_user,
    call_ids,
    function_names,
    objects_both_ways,
    calls_are_signed,
    nothing_blank,
    tools_declared,
    json_without_tools,
    ends_with_a_user_turn,
)
