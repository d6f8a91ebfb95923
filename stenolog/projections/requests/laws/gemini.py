"""The laws of Gemini's generateContent, each from a documented or observed refusal.

Contents of one role that follow each other are one turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from stenolog.projections.requests.wires.families import since_gemini_3

from .law import Body, Finding, Law, blank, law

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
"""What a part may be: one of these."""
ABOUT = frozenset({"thought", "thoughtSignature"})
"""What may stand beside it."""


class Turn(NamedTuple):
    """The parts that one role says without a break, each with its JSON pointer."""

    role: str
    parts: list[tuple[str, Body]]

    def having(self, kind: str) -> list[tuple[str, Body]]:
        """The parts of a kind."""
        return [(at, part) for at, part in self.parts if kind in part]


def _contents(body: Body) -> Iterator[tuple[str, Body]]:
    return ((f"/contents/{i}", content) for i, content in enumerate(body.get("contents", [])))


def _parts_of(at: str, content: Body) -> list[tuple[str, Body]]:
    return [(f"{at}/parts/{k}", part) for k, part in enumerate(content.get("parts") or [])]


def _parts(body: Body, kind: str = "") -> Iterator[tuple[str, Body]]:
    for at, content in _contents(body):
        yield from ((place, part) for place, part in _parts_of(at, content) if not kind or kind in part)


def _turns(body: Body) -> list[Turn]:
    by_role = groupby(_contents(body), key=lambda found: str(found[1].get("role")))
    return [Turn(role, [part for found in run for part in _parts_of(*found)]) for role, run in by_role]


def _since_3(body: Body) -> bool:
    return since_gemini_3(str(body.get("model", "")))


@law
def contents_present(body: Body) -> Iterator[Finding]:
    """A request holds at least one content, and a content at least one part."""
    if not body.get("contents"):
        yield "/contents", "no content"
    for at, content in _contents(body):
        if not content.get("parts"):
            yield f"{at}/parts", "no part"


@law
def known_roles(body: Body) -> Iterator[Finding]:
    """A content is the user's or the model's."""
    for at, content in _contents(body):
        if content.get("role") not in ("user", "model"):
            yield f"{at}/role", repr(content.get("role"))


@law
def one_thing_each(body: Body) -> Iterator[Finding]:
    """A part is one thing: a text, a medium, a call, a response, or what Gemini's own tools did."""
    for at, part in _parts(body):
        if len(part.keys() & DATA) != 1 or part.keys() - DATA - ABOUT:
            yield at, ", ".join(part) or "nothing"


@law
def calls_by_the_model(body: Body) -> Iterator[Finding]:
    """The model calls, and the user responds."""
    for kind, role in (("functionCall", "model"), ("functionResponse", "user")):
        for turn in _turns(body):
            if turn.role != role:
                yield from ((f"{at}/{kind}", f"in a turn of {turn.role!r}") for at, _ in turn.having(kind))


@law
def every_call_answered(body: Body) -> Iterator[Finding]:
    """A turn has as many responses as the turn before it has calls, and to the same ids."""
    turns = _turns(body)
    for asked, answer in zip(turns, [*turns[1:], Turn("end", [])], strict=False):
        calls = [part["functionCall"] for _, part in asked.having("functionCall")]
        given = [part["functionResponse"] for _, part in answer.having("functionResponse")]
        if calls and _ids(calls) != _ids(given):
            yield asked.having("functionCall")[0][0], f"{len(given)} responses to {len(calls)} calls"


def _ids(of: list[Body]) -> list[tuple[str, str]]:
    return sorted((str(each.get("id")), str(each.get("name"))) for each in of)


@law
def every_response_has_its_call(body: Body) -> Iterator[Finding]:
    """A response stands in the turn behind a turn that calls."""
    turns = _turns(body)
    for before, turn in zip([Turn("start", []), *turns], turns, strict=False):
        if not before.having("functionCall"):
            yield from ((at, "no call before it") for at, _ in turn.having("functionResponse"))


@law
def responses_apart(body: Body) -> Iterator[Finding]:
    """Responses stand first in their turn, in one content of their own."""
    for before, (at, content) in zip([("", {}), *_contents(body)], _contents(body), strict=False):
        kinds = ["functionResponse" in part for _, part in _parts_of(at, content)]
        if any(kinds) and (not all(kinds) or before[1].get("role") != "model"):
            yield f"{at}/parts", "other things with the responses"


@law
def calls_come_after_the_user(body: Body) -> Iterator[Finding]:
    """The user begins, so that a turn that calls stands behind one of the user's."""
    turns = _turns(body)
    if turns and turns[0].role == "model":
        yield "/contents/0/role", "model"


@law
def call_ids(body: Body) -> Iterator[Finding]:
    """The ids of calls are unique in the request."""
    seen: set[object] = set()
    for at, part in _parts(body, "functionCall"):
        id = part["functionCall"].get("id")
        if id in seen:
            yield f"{at}/functionCall/id", repr(id)
        seen.add(id)


@law
def function_names(body: Body) -> Iterator[Finding]:
    """The names of functions begin with a letter or _, are at most 64 long, and declared once."""
    for kind in ("functionCall", "functionResponse"):
        for at, part in _parts(body, kind):
            if not NAME.fullmatch(str(part[kind].get("name", ""))):
                yield f"{at}/{kind}/name", repr(part[kind].get("name"))
    declared: set[str] = set()
    for i, tool in enumerate(body.get("tools", [])):
        for k, function in enumerate(tool.get("functionDeclarations", [])):
            name = str(function.get("name", ""))
            if not NAME.fullmatch(name) or name in declared:
                yield f"/tools/{i}/functionDeclarations/{k}/name", repr(name)
            declared.add(name)


@law
def objects_both_ways(body: Body) -> Iterator[Finding]:
    """The arguments of a call and what a response says are objects."""
    for kind, key in (("functionCall", "args"), ("functionResponse", "response")):
        for at, part in _parts(body, kind):
            if not isinstance(part[kind].get(key), dict):
                yield f"{at}/{kind}/{key}", type(part[kind].get(key)).__name__


@law
def calls_are_signed(body: Body) -> Iterator[Finding]:
    """From Gemini 3 on, the first call of each content of the model's is signed."""
    for at, content in _contents(body) if _since_3(body) else ():
        calls = [found for found in _parts_of(at, content) if "functionCall" in found[1]]
        if calls and not calls[0][1].get("thoughtSignature"):
            yield f"{calls[0][0]}/thoughtSignature", "none"


@law
def nothing_blank(body: Body) -> Iterator[Finding]:
    """No text is blank, save an empty one that is there for its signature."""
    if any(blank(part.get("text", " ")) for part in body.get("systemInstruction", {}).get("parts", [])):
        yield "/systemInstruction/parts", "a blank text, or none"
    for at, part in _parts(body, "text"):
        if blank(part["text"]) and not part.get("thoughtSignature"):
            yield f"{at}/text", "a blank text"


@law
def tools_declared(body: Body) -> Iterator[Finding]:
    """Nothing chooses among functions where none is declared."""
    declared = any(tool.get("functionDeclarations") for tool in body.get("tools", []))
    if "toolConfig" in body and not declared:
        yield "/toolConfig", "no functions"


@law
def json_without_tools(body: Body) -> Iterator[Finding]:
    """Before Gemini 3, there is no answer in JSON beside functions."""
    wanted = body.get("generationConfig", {}).get("responseMimeType") == "application/json"
    if wanted and body.get("tools") and not _since_3(body):
        yield "/generationConfig/responseMimeType", "application/json"


@law
def ends_with_a_user_turn(body: Body) -> Iterator[Finding]:
    """The conversation ends with a turn of the user."""
    turns = body.get("contents")
    if turns and turns[-1].get("role") != "user":
        yield f"/contents/{len(turns) - 1}/role", repr(turns[-1].get("role"))


LAWS: tuple[Law, ...] = (
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
