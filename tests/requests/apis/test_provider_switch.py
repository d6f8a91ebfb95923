"""What survives a switch of provider or model: each cell of the tables in the docs, against real requests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stenolog import (
    AgentCard,
    AssistantMessage,
    Event,
    ModeSwitch,
    TextPart,
    Tool,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.context import Prompt
from stenolog.parts import FilePart, ImagePart, ProviderPart, ReasoningPart, RefusalPart
from stenolog.projections.formats import FORMATS
from stenolog.projections.formats.gemini.write import UNSIGNED
from stenolog.projections.requests import build
from tests.requests.given import log
from tests.requests.histories import LARGE, PNG

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "provider-switch.md"
Body = dict[str, Any]
WORD = "telltale"
"""The word that tells a part: where it stands in a body, the part has come so far."""
BLOBS = {PNG: WORD.encode(), LARGE: bytes(4 * 1024 * 1024)}
BYTES, LARGE_BYTES = "dGVsbHRhbGU=", "AAAAAAAA"
"""What those blobs are in base64, or begin with."""


class Maker(NamedTuple):
    """Who made an answer, and what its own tools leave in it."""

    provider: str
    model: str
    own: tuple[str, ...] = ('{"type":"telltale"}',)


SEARCH = '{"type":"web_search_call","status":"completed","query":"telltale"}'
ASKED = '{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"telltale"}}'
FOUND = '{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}'
CODE = '{"executableCode":{"language":"PYTHON","code":"telltale"}}'
RAN = '{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1"}}'
OPENAI, OPENAI_TOO = Maker("openai", "gpt-5", (SEARCH,)), Maker("openai", "o3", (SEARCH,))
MAKERS = {
    "openai-chat": (OPENAI, OPENAI_TOO),
    "openai-responses": (OPENAI, OPENAI_TOO),
    "anthropic": (
        Maker("anthropic", "claude-opus-5", (ASKED, FOUND)),
        Maker("anthropic", "claude-haiku-5", (ASKED, FOUND)),
    ),
    "gemini": (
        Maker("google", "gemini-3-pro", (CODE, RAN)),
        Maker("google", "gemini-3-flash", (CODE, RAN)),
    ),
    "plain": (OPENAI, OPENAI_TOO),
}
"""For each API of the tables a maker of the family that is asked now, and one of another of its families."""
ELSEWHERE = Maker("elsewhere", "other-1")
SHELL = ToolCall(id="c1", name="shell")


def request(api: str, *events: Event, policy: Prompt | None = None, **card: Any) -> Body:
    """Return the body of the coder's request, on a card of the API's own model."""
    switch = ModeSwitch(cards={"coder": AgentCard(**{"model": MAKERS[api][0].model, **card})})
    return build(log(switch, *events), "coder", api=api, blobs=BLOBS, policy=policy).body


def after(api: str, maker: Maker, *parts: Any) -> Body:
    """Return the body that follows an answer with these parts."""
    calls = [part for part in parts if isinstance(part, ToolCall)]
    return request(
        api,
        UserMessage(text="go"),
        AssistantMessage(agent="coder", parts=parts, model=maker.model),
        *(ToolResult(call_id=call.id, text="done") for call in calls),
        UserMessage(text="and now?"),
    )


def shown(api: str, *parts: Any, is_error: bool = False) -> Body:
    """Return the body that follows a result with these parts."""
    asked = AssistantMessage(agent="coder", tool_calls=[SHELL])
    result = ToolResult(call_id=SHELL.id, parts=parts, is_error=is_error)
    return request(api, UserMessage(text="go"), asked, result)


def places(body: object, word: str, under: str = "") -> Iterator[str]:
    """Yield the keys under which a word stands in a body, as a text or in one."""
    if isinstance(body, dict):
        for key, value in body.items():
            yield from places(value, word, key)
    elif isinstance(body, list):
        for value in body:
            yield from places(value, word, under)
    elif isinstance(body, str) and word in body:
        yield under


def fate(body: Body, *native: str, word: str = WORD, kept: str = "kept") -> str:
    """Return the fate of a part: kept if its word is under a key that its provider has for it."""
    found = set(places(body, word))
    if found.intersection(native):
        return kept
    return "as text" if found else "dropped"


def _told(body: Body, other: Body) -> str:
    """Return whether the provider can distinguish one from the other."""
    return "dropped" if body == other else "kept"


TEXTS = ("content", "text", "prompt")
IDS = ("id", "call_id")
ANSWERS: dict[str, Callable[[str, Maker], str]] = {
    "text": lambda api, by: fate(after(api, by, TextPart(text=WORD)), *TEXTS),
    "refusal": lambda api, by: fate(after(api, by, RefusalPart(text=WORD)), "refusal"),
    "tool call": lambda api, by: fate(
        after(api, by, ToolCall(id="c1", name="shell", arguments='{"cmd":"telltale"}')), "arguments", "cmd"
    ),
    "its id": lambda api, by: fate(after(api, by, ToolCall(id="telltale-1", name="shell")), *IDS),
    "an id that is refused": lambda api, by: fate(
        after(api, by, ToolCall(id="telltale 1", name="shell")), *IDS, word="telltale_1", kept="rewritten"
    ),
    "arguments that are no object": lambda api, by: fate(
        after(api, by, ToolCall(id="c1", name="shell", arguments=WORD)), "arguments", "_raw", kept="wrapped"
    ),
    "a call that Gemini has not signed": lambda api, by: fate(
        after(api, by, SHELL), "thoughtSignature", word=UNSIGNED, kept="marked"
    ).replace("dropped", "not needed"),
    "reasoning: text": lambda api, by: fate(
        after(api, by, ReasoningPart(text=WORD, provider=by.provider, **_proof(api)), SHELL),
        *TEXTS,
        "thinking",
    ),
    "reasoning: signature": lambda api, by: fate(
        after(api, by, ReasoningPart(text="hm", provider=by.provider, signature=WORD), SHELL),
        "signature",
        "thoughtSignature",
    ),
    "reasoning: encrypted": lambda api, by: fate(
        after(api, by, ReasoningPart(provider=by.provider, encrypted=WORD), SHELL),
        "encrypted_content",
        "data",
    ),
    "what its own tools did": lambda api, by: fate(
        after(api, by, *(ProviderPart(provider=by.provider, raw=raw) for raw in by.own), TextPart(text="ok")),
        "query",
        "code",
    ),
}
"""What an answer may hold, and what became of it."""


def _proof(api: str) -> dict[str, Any]:
    """Return the field that reasoning must have to be sent back: encrypted for OpenAI, else signed."""
    return {"encrypted": "gAAA"} if api == "openai-responses" else {"signature": "c2ln"}


def _media(body: Body, word: str = BYTES) -> str:
    """Return the fate of a picture or a file: its bytes or its address, or a line of text instead."""
    if set(places(body, word)):
        return "behind the results" if set(places(body, "shown below")) else "kept"
    return fate(body, word="[file" if set(places(body, "[file")) else "[image")


def _noted(body: Body) -> str:
    """Return the fate of a system note: a message of the system's, or words in another message."""
    turns: list[Body] = next((body[key] for key in ("messages", "contents", "input") if key in body), [])
    spoken = [turn for turn in turns if WORD in json.dumps(turn)]
    own = any(turn["role"] in ("system", "developer") for turn in spoken)
    return "kept" if own or "System: telltale" in str(body.get("prompt")) else fate(body)


CSV = FilePart(name="a.csv", media_type="text/csv", blob=PNG)
PDF = FilePart(name="a.pdf", media_type="application/pdf", blob=PNG)
URL = "https://telltale.example/a.png"
INPUTS: dict[str, Callable[[str], str]] = {
    "text": lambda api: fate(request(api, UserMessage(text=WORD)), *TEXTS),
    "picture": lambda api: _media(request(api, UserMessage(parts=[ImagePart(blob=PNG)]))),
    "picture at an address": lambda api: _media(
        request(api, UserMessage(parts=[ImagePart(url=URL)])), "telltale"
    ),
    "picture of 5.6 MB in base64": lambda api: _media(
        request(api, UserMessage(parts=[ImagePart(blob=LARGE)])), LARGE_BYTES
    ),
    "PDF": lambda api: _media(request(api, UserMessage(parts=[PDF]))),
    "other file": lambda api: _media(request(api, UserMessage(parts=[CSV]))),
    "result of a tool": lambda api: fate(shown(api, TextPart(text=WORD)), "content", "text", "output"),
    "that a tool failed": lambda api: _told(
        shown(api, TextPart(text=WORD)), shown(api, TextPart(text=WORD), is_error=True)
    ),
    "picture in a result": lambda api: _media(shown(api, ImagePart(blob=PNG))),
    "system note in the log": lambda api: _noted(
        request(api, UserMessage(text="go"), UserMessage(text=WORD, author_kind="system"))
    ),
    "note behind the conversation": lambda api: _noted(
        request(api, UserMessage(text="go"), policy=Prompt(banner=WORD))
    ),
}
"""What the user, a tool or the policy may say, and what became of it."""


def _asks(**parameters: Any) -> Callable[[str], str]:
    """Return whether the provider hears of these parameters."""

    def fate_of(api: str) -> str:
        model = SAMPLED.get(api, MAKERS[api][0].model)
        given: Body = {"tools": (Tool(name="shell"),), "model": model}
        asked = request(api, UserMessage(text="go"), parameters=parameters, **given)
        return _told(request(api, UserMessage(text="go"), **given), asked)

    return fate_of


SAMPLED = {"anthropic": "claude-opus-4-5"}
"""A model that takes sampling parameters, where those of today refuse them."""


SCHEMA: Body = {"name": "out", "schema": {"type": "object"}}
ASKS: dict[str, Callable[[str], str]] = {
    "persona": lambda api: fate(request(api, UserMessage(text="go"), persona=WORD), *TEXTS, "instructions"),
    "tools": lambda api: fate(request(api, UserMessage(text="go"), tools=(Tool(name=WORD),)), "name"),
    "`tool_choice`": _asks(tool_choice="required"),
    "`tool_choice` of one tool": _asks(tool_choice={"tool": "shell"}),
    "`parallel_tool_calls`": _asks(parallel_tool_calls=False),
    "`output`: a schema": _asks(output=SCHEMA),
    "`max_tokens`": _asks(max_tokens=100),
    "`temperature`": _asks(temperature=0.5),
    "`top_p`": _asks(top_p=0.5),
    "`stop`": _asks(stop=["END"]),
    "`effort`": _asks(effort="low"),
    "`cache`": _asks(cache=False),
}
"""What a card may ask for, and whether the provider hears of it."""
FAMILIES: dict[str, Callable[[str], Maker]] = {
    "the same family": lambda api: MAKERS[api][0],
    "another family": lambda api: MAKERS[api][1],
    "another provider": lambda api: ELSEWHERE,
}


class Cell(NamedTuple):
    """A cell of a table in the docs: what, made by whom, and what becomes of it on an API."""

    what: str
    by: str
    api: str
    says: str


def _cells() -> Iterator[Cell]:
    for table in re.findall(r"(?:^\|.*\n)+", PAGE.read_text(), re.MULTILINE):
        head, _, *rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]
        apis = [name.strip("`") for name in head if name.strip("`") in FORMATS]
        for what, *row in rows if apis else ():
            by = row[0] if len(row) > len(apis) else ""
            yield from (Cell(what, by, *cell) for cell in zip(apis, row[-len(apis) :], strict=True))


CELLS = list(_cells())


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.what}, {cell.by}, {cell.api}")
def test_the_table_says_what_becomes_of_it(cell: Cell) -> None:
    if cell.by:
        makers = [maker(cell.api) for name, maker in FAMILIES.items() if _is_by(name, cell.by)]
        fates = {ANSWERS[cell.what](cell.api, maker) for maker in makers}
    else:
        fates = {(INPUTS | ASKS)[cell.what](cell.api)}

    assert fates == {cell.says}


def test_the_tables_have_everything_on_every_wire() -> None:
    told = {(cell.what, cell.by, cell.api) for cell in CELLS}
    wanted = {(what, "", api) for what in INPUTS | ASKS for api in MAKERS}
    makers = {(what, by, api) for what in ANSWERS for by in FAMILIES for api in MAKERS}
    shown = {
        each for each in makers for what, by, api in told if each[::2] == (what, api) and _is_by(each[1], by)
    }

    assert told >= wanted
    assert shown == makers


def _is_by(family: str, said: str) -> bool:
    """Return whether the word of a row means a family."""
    return said in (family, "anyone") or (said == "others" and family != "the same family")


@pytest.mark.parametrize("api", MAKERS)
def test_after_a_switch_there_and_back_the_request_is_what_it_would_have_been(api: str) -> None:
    own = MAKERS[api][0]
    thought = ReasoningPart(text="hm", provider=own.provider, **_proof(api))
    answer = AssistantMessage(agent="coder", parts=[thought, SHELL], model=own.model)
    events = (UserMessage(text="go"), answer, ToolResult(call_id="c1", text="done"))
    away, back = (ModeSwitch(cards={"coder": AgentCard(model=model)}) for model in ("other-1", own.model))

    assert request(api, *events, away, back) == request(api, *events)
    assert request(api, *events, away) != request(api, *events)
