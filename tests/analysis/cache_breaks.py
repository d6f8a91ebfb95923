"""Changes of a request that break, or do not break, a prompt cache, and a small model of providers' caches.

The model counts four characters as a token. It shares nothing with the analysis: what it reads is what a
provider would state.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from tests.recorder.programs import BODIES, WORDS, Json, said, tool

LONG = WORDS * 8
TOOLS = ("Alpha", "Bravo", "Charlie", "Delta", "Echo", "Foxtrot")
TEXTS = [f"Message {n} of the talk. {WORDS * 3}" for n in range(7)]
REPLY = f"All the loaves are baked. {WORDS}"
NEXT = f"And what comes next, then? {WORDS}"
MARK = {"type": "ephemeral"}
APIS = ("anthropic", "openai-chat", "openai-responses", "gemini")


class Provider:
    """The prompt cache of a provider: Anthropic's keeps what is marked, the others' the last prompt."""

    def __init__(self) -> None:
        self.kept: dict[str, float] = {}
        self.last: tuple[list[str], float] = [], 0.0

    def usage(self, api: str, body: Json, now: float, least: int = 1_024) -> tuple[int, int, int]:
        """Return the tokens of a request, those that it reads from the cache, and those that it writes."""
        found = [*pieces(api, body)]
        texts = [text for text, _ in found]
        total = _tokens(texts)
        if api != "anthropic":
            return total, self._longest(texts, now, least), 0
        marks = [n for n, (_, seconds) in enumerate(found, 1) if seconds]
        read = self._marked(texts, marks, now, least)
        for n in marks:
            if _tokens(texts[:n]) >= least:
                self.kept["".join(texts[:n])] = now + found[n - 1][1]
        wrote = max(0, _tokens(texts[: marks[-1]]) - read) if marks else 0
        return total, read, wrote

    def _marked(self, texts: list[str], marks: list[int], now: float, least: int) -> int:
        for mark in reversed(marks):
            for n in range(mark, max(0, mark - 20), -1):
                if self.kept.get("".join(texts[:n]), 0) >= now and _tokens(texts[:n]) >= least:
                    return _tokens(texts[:n])
        return 0

    def _longest(self, texts: list[str], now: float, least: int) -> int:
        before, when = self.last
        self.last = texts, now
        same = 0
        while same < min(len(before), len(texts)) and before[same] == texts[same]:
            same += 1
        read = _tokens(texts[:same]) if now - when <= 600 else 0
        return read // 128 * 128 if read >= least else 0


def _tokens(texts: list[str]) -> int:
    return sum((len(text) + 3) // 4 for text in texts)


def pieces(api: str, body: Json) -> Iterator[tuple[str, int]]:
    """Yield the pieces of a prompt in the order of the provider, and the seconds that a mark keeps it."""
    model, tools = str(body.get("model", "")), body.get("tools", [])
    yield f"<{model}>", 0
    match api:
        case "anthropic":
            yield from map(_piece, tools)
            yield _setting(body, "speed"), 0
            yield from map(_piece, body["system"])
            yield _setting(body, "tool_choice") + _setting(body, "thinking"), 0
            for message in body["messages"]:
                content = message["content"]
                blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
                for block in blocks:
                    text, seconds = _piece(block)
                    yield f"{message['role']}:{text}", seconds
        case "gemini":
            yield from map(_piece, body["systemInstruction"]["parts"])
            yield from map(_piece, tools[0]["functionDeclarations"])
            yield _setting(body, "toolConfig"), 0
            for message in body["contents"]:
                for part in message["parts"]:
                    yield f"{message['role']}:{_piece(part)[0]}", 0
        case _:
            yield _setting(body, "prompt_cache_key") + _setting(body, "response_format"), 0
            yield json.dumps(body.get("text")), 0
            messages: list[Json] = body.get("messages") or body["input"]
            system = [messages[0]] if messages[0]["role"] == "system" else [body["instructions"]]
            yield from map(_piece, [*system, *tools])
            yield from map(_piece, messages[1:] if messages[0]["role"] == "system" else messages)


def _setting(body: Json, key: str) -> str:
    return f"[{json.dumps(body.get(key))}]" if body.get(key) is not None else ""


def _piece(value: Any) -> tuple[str, int]:
    mark = value.get("cache_control") if isinstance(value, dict) else None
    bare = {k: v for k, v in value.items() if k != "cache_control"} if mark else value
    return json.dumps(bare, separators=(",", ":")), 0 if not mark else 3_600 if mark.get(
        "ttl"
    ) == "1h" else 300


class Expected(NamedTuple):
    """The cause that should be found; `entry` says how its entry is known: see `test_cache_misses`."""

    kind: str = ""
    how: str = ""
    pointer: str = ""
    offset: int = -1
    entry: str = ""


class Break(NamedTuple):
    """A change from the first body to the second, so many seconds later, and what it should be found to be.

    `before` changes both of them first.
    """

    api: str
    name: str
    change: Callable[[Json], object]
    expected: Expected = Expected()
    seconds: float = 10
    before: Callable[[Json], object] = lambda body: None
    least: int = 1_024


def bodies(one: Break) -> tuple[Json, Json]:
    """Return the two bodies of a break."""
    first = _base(one.api, TEXTS)
    second = _base(one.api, [*TEXTS, REPLY, NEXT])
    one.before(first)
    one.before(second)
    one.change(second)
    return copy.deepcopy(first), copy.deepcopy(second)


def _base(api: str, texts: list[str]) -> Json:
    messages = [said(api, text, "assistant" if n % 2 else "user") for n, text in enumerate(texts)]
    tools = [tool(api, name, f"{name}: {LONG}") for name in TOOLS]
    body: Json = BODIES[api](messages)
    match api:
        case "anthropic":
            body["tools"] = tools
            body["system"] = [
                {"type": "text", "text": f"billing: cc_version=2.1.0.abc; {WORDS}"},
                {"type": "text", "text": f"You are an agent. The date is 2026-01-05. {LONG}"},
                {"type": "text", "text": f"gitStatus: clean, on main. {LONG}", "cache_control": MARK},
            ]
            messages[-1]["content"][-1]["cache_control"] = MARK
        case "gemini":
            body["tools"] = [{"functionDeclarations": tools}]
            body["systemInstruction"]["parts"][0]["text"] = f"The date is 2026-01-05. {LONG}"
        case "openai-chat":
            body["tools"] = tools
            body["messages"][0]["content"] = f"The date is 2026-01-05. {LONG}"
        case _:
            body["tools"] = tools
            body["instructions"] = f"The date is 2026-01-05. {LONG}"
    return copy.deepcopy(body)


class Form(NamedTuple):
    """Where an API has its tools and messages: the list, and the pointer of it."""

    api: str

    def tools(self, body: Json) -> list[Json]:
        found: list[Json] = (
            body["tools"][0]["functionDeclarations"] if self.api == "gemini" else body["tools"]
        )
        return found

    def tool_pointer(self, nth: int, inner: str = "") -> str:
        base = "/tools/0/functionDeclarations" if self.api == "gemini" else "/tools"
        function = "/function" if self.api == "openai-chat" and inner else ""
        return f"{base}/{nth}{function}{inner}"

    def function(self, body: Json, nth: int) -> Json:
        found = self.tools(body)[nth]
        return found["function"] if self.api == "openai-chat" else found

    @property
    def schema(self) -> str:
        return {"anthropic": "input_schema", "gemini": "parametersJsonSchema"}.get(self.api, "parameters")

    @property
    def key(self) -> str:
        return {"openai-responses": "input", "gemini": "contents"}.get(self.api, "messages")

    @property
    def first(self) -> int:
        return 1 if self.api == "openai-chat" else 0

    def messages(self, body: Json) -> list[Json]:
        found: list[Json] = body[self.key]
        return found

    def message_pointer(self, depth: int) -> str:
        inner = {"anthropic": "/content/0", "gemini": "/parts/0"}.get(self.api, "")
        return f"/{self.key}/{depth + self.first}{inner}"

    def text_pointer(self, depth: int) -> str:
        inner = {"openai-chat": "/content", "openai-responses": "/content/0/text"}.get(self.api, "/text")
        return f"{self.message_pointer(depth)}{inner}"

    def set_text(self, body: Json, depth: int, change: Callable[[str], str]) -> None:
        message = self.messages(body)[depth + self.first]
        if isinstance(message.get("content"), str):
            message["content"] = change(message["content"])
        else:
            part = (message.get("content") or message["parts"])[0]
            part["text"] = change(part["text"])


def breaks() -> list[Break]:
    """Return all of them."""
    found = [one for api in APIS for one in (*_of_tools(api), *_of_system(api), *_of_history(api))]
    return [*found, *_of_settings(), *_of_time(), *_of_marks(), *_of_forms()]


def _of_tools(api: str) -> Iterator[Break]:
    form = Form(api)
    numbers = range(len(TOOLS)) if api == "anthropic" else (0, 2, 5)

    def described(body: Json, nth: int) -> None:
        function = form.function(body, nth)
        function["description"] = function["description"].replace("quick", "slow", 1)

    def typed(body: Json, nth: int) -> None:
        form.function(body, nth)[form.schema]["properties"]["path"]["type"] = "integer"

    def swapped(body: Json, nth: int) -> None:
        tools = form.tools(body)
        tools[nth], tools[nth + 1] = tools[nth + 1], tools[nth]

    for nth in numbers:
        offset = f"{TOOLS[nth]}: {LONG}".index("quick")
        pointer = form.tool_pointer(nth, "/description")
        yield Break(
            api,
            f"the description of tool {nth} changed",
            partial(described, nth=nth),
            Expected("tools", "changed", pointer, offset, "card"),
        )
        yield Break(
            api,
            f"the schema of tool {nth} changed",
            partial(typed, nth=nth),
            Expected(
                "tools", "changed", form.tool_pointer(nth, f"/{form.schema}/properties/path/type"), 0, "card"
            ),
        )
        yield Break(
            api,
            f"tool {nth} was removed",
            partial(_without, form.tools, nth),
            Expected("tools", "removed", form.tool_pointer(nth), -1, "card"),
        )
        yield Break(
            api,
            f"a tool came at {nth}",
            partial(_with, form.tools, nth, tool(api, "Zulu")),
            Expected("tools", "added", form.tool_pointer(nth), -1, "card"),
        )
        if nth + 1 < len(TOOLS):
            yield Break(
                api,
                f"tools {nth} and {nth + 1} were swapped",
                partial(swapped, nth=nth),
                Expected("tools", "moved", form.tool_pointer(nth), -1, "card"),
            )
    yield Break(
        api,
        "a tool came behind the others",
        lambda body: form.tools(body).append(tool(api, "Zulu")),
        Expected("tools", "added", form.tool_pointer(len(TOOLS)), -1, "card"),
    )


def _system_texts(api: str) -> list[tuple[str, Callable[[Json], tuple[Json, str]]]]:
    """Return the pointer of each system text, and where it stands in a body."""
    match api:
        case "anthropic":
            return [
                (f"/system/{n}/text", lambda body, n=n: (body["system"][n], "text"))  # type: ignore[misc]
                for n in range(3)
            ]
        case "gemini":
            return [
                (
                    "/systemInstruction/parts/0/text",
                    lambda body: (body["systemInstruction"]["parts"][0], "text"),
                )
            ]
        case "openai-chat":
            return [("/messages/0/content", lambda body: (body["messages"][0], "content"))]
        case _:
            return [("/instructions", lambda body: (body, "instructions"))]


WORDS_OF_SYSTEM = (
    ("2026-01-05", "2026-01-06"),
    ("abc;", "f00;"),
    ("clean", "3 files changed"),
    ("rye", "oat"),
)


def _of_system(api: str) -> Iterator[Break]:
    for pointer, place in _system_texts(api):
        holder, key = place(_base(api, TEXTS))
        for old, new in WORDS_OF_SYSTEM:
            if old in holder[key]:
                offset = holder[key].index(old) + next(
                    n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b
                )

                def changed(body: Json, place: Any = place, old: str = old, new: str = new) -> None:
                    there, name = place(body)
                    there[name] = there[name].replace(old, new, 1)

                yield Break(
                    api,
                    f"{old} became {new} in {pointer}",
                    changed,
                    Expected("system", "changed", pointer, offset, "card"),
                )
    if api == "anthropic":
        for nth in range(3):
            yield Break(
                api,
                f"system block {nth} was removed",
                partial(_without, _system, nth),
                Expected("system", "removed", f"/system/{nth}", -1, "card"),
            )
            yield Break(
                api,
                f"a system block came at {nth}",
                partial(_with, _system, nth, {"type": "text", "text": "Be brief."}),
                Expected("system", "added", f"/system/{nth}", -1, "card"),
            )


def _of_history(api: str) -> Iterator[Break]:
    form = Form(api)
    for depth in range(len(TEXTS)):
        yield Break(
            api,
            f"message {depth} was edited",
            partial(_edited, form, depth),
            Expected("history", "changed", form.text_pointer(depth), 8, "EDITED"),
        )
        yield Break(
            api,
            f"a message came before {depth}",
            partial(_with, form.messages, depth + form.first, said(api, "INSERTED by a hook")),
            Expected("history", "added", form.message_pointer(depth), -1, "INSERTED"),
        )
        if depth + 1 < len(TEXTS):
            yield Break(
                api,
                f"message {depth} was removed",
                partial(_without, form.messages, depth + form.first),
                Expected("history", "removed", form.message_pointer(depth), -1, "hides"),
            )
        if depth in (2, 4):
            yield Break(
                api,
                f"the conversation went another way at {depth}",
                partial(_rewound, form, depth),
                Expected("history", "rewound", form.message_pointer(depth), -1, "ANOTHER"),
            )


def _edited(form: Form, depth: int, body: Json) -> None:
    form.set_text(body, depth, lambda text: f"{text[:8]}EDITED {text[8:]}")


def _with(items: Callable[[Json], list[Json]], at: int, item: Json, body: Json) -> None:
    items(body).insert(at, item)


def _without(items: Callable[[Json], list[Json]], at: int, body: Json) -> None:
    items(body).pop(at)


def _system(body: Json) -> list[Json]:
    found: list[Json] = body["system"]
    return found


def _rewound(form: Form, depth: int, body: Json) -> None:
    del form.messages(body)[depth + form.first :]
    form.messages(body).append(said(form.api, "ANOTHER question, on something else"))


def _of_settings() -> Iterator[Break]:
    def put(**fields: Any) -> Callable[[Json], object]:
        return lambda body: body.update(fields)

    yield Break(
        "anthropic",
        "a tool must be called",
        put(tool_choice={"type": "any"}),
        Expected("setting", "changed", "/tool_choice", -1, "none"),
    )
    yield Break(
        "anthropic",
        "thinking was switched off",
        put(thinking={"type": "disabled"}),
        Expected("setting", "changed", "/thinking/type", 0, "card"),
    )
    yield Break(
        "anthropic",
        "thinking is left out",
        lambda body: body.pop("thinking"),
        Expected("setting", "changed", "/thinking", -1, "card"),
    )
    yield Break(
        "anthropic",
        "it is to be fast",
        put(speed="fast"),
        Expected("setting", "changed", "/speed", -1, "none"),
    )
    yield Break(
        "openai-responses",
        "the cache has another key",
        put(prompt_cache_key="other"),
        Expected("setting", "changed", "/prompt_cache_key", 0, "none"),
    )
    yield Break(
        "openai-responses",
        "a schema came",
        put(text={"format": {"type": "json_object"}}),
        Expected("setting", "added", "/text/format", -1, "card"),
    )
    yield Break(
        "openai-chat",
        "a schema came",
        put(response_format={"type": "json_object"}),
        Expected("setting", "changed", "/response_format", -1, "card"),
    )
    yield Break(
        "gemini",
        "tools are switched off",
        put(toolConfig={"functionCallingConfig": {"mode": "NONE"}}),
        Expected("setting", "changed", "/toolConfig", -1, "none"),
    )
    for api, model in (
        ("anthropic", "claude-haiku-4"),
        ("openai-chat", "gpt-5"),
        ("openai-responses", "gpt-5-mini"),
    ):
        yield Break(
            api,
            "another model is asked",
            put(model=model),
            Expected("model", "changed", "/model", -1, "card"),
        )
    harmless: dict[str, list[Json]] = {
        "anthropic": [
            {"max_tokens": 1_000},
            {"temperature": 0.2},
            {"top_p": 0.9},
            {"stop_sequences": ["END"]},
            {"metadata": {"user_id": "other"}},
            {"stream": False},
            {"context_management": {"edits": []}},
        ],
        "openai-chat": [
            {"temperature": 0.2},
            {"max_tokens": 5},
            {"tool_choice": "required"},
            {"stream": False},
        ],
        "openai-responses": [{"tool_choice": "required"}, {"max_output_tokens": 9}, {"store": True}],
        "gemini": [{"generationConfig": {"temperature": 0.1}}, {"generationConfig": {"maxOutputTokens": 9}}],
    }
    for api, given in harmless.items():
        for fields in given:
            yield Break(api, f"{fields}, which breaks nothing", put(**fields))


def _hour(body: Json) -> None:
    for holder in (body["system"][2], body["messages"][-1]["content"][-1]):
        if "cache_control" in holder:
            holder["cache_control"] = {"type": "ephemeral", "ttl": "1h"}


def _nothing(body: Json) -> None:
    pass


def _of_time() -> Iterator[Break]:
    over = Expected("expired")
    yield Break("anthropic", "six minutes went by", _nothing, over, 360)
    yield Break("anthropic", "an hour went by", _nothing, over, 3_600)
    yield Break("anthropic", "four minutes went by", _nothing, Expected(), 240)
    yield Break("anthropic", "six minutes of an hour went by", _nothing, Expected(), 360, _hour)
    yield Break("anthropic", "more than its hour went by", _nothing, over, 3_700, _hour)
    for api in APIS[1:]:
        yield Break(api, "twenty minutes went by", _nothing, over, 1_200)
        yield Break(api, "five minutes went by", _nothing, Expected(), 300)


def _unmarked(body: Json) -> None:
    for each in (*body["system"], *(block for m in body["messages"] for block in m["content"])):
        each.pop("cache_control", None)


def _marked_at(where: int) -> Callable[[Json], None]:
    def change(body: Json) -> None:
        _unmarked(body)
        body["tools"][-1]["cache_control"] = MARK
        body["system"][1]["cache_control"] = MARK
        body["messages"][where]["content"][0]["cache_control"] = MARK

    return change


def _far(body: Json) -> None:
    body["messages"][-1]["content"][-1].pop("cache_control")
    new = [{"type": "text", "text": f"Note {n}. {WORDS}"} for n in range(24)]
    body["messages"][-1]["content"] += [*new, {"type": "text", "text": NEXT, "cache_control": MARK}]


def _long(body: Json) -> None:
    for message in body["messages"][:5]:
        message["content"][0]["text"] += LONG * 2


def _of_marks() -> Iterator[Break]:
    for where in (6, 7, 8, 4):
        yield Break("anthropic", f"the marks moved, the last one to message {where}", _marked_at(where))
    yield Break("anthropic", "there is no mark any more", _unmarked, Expected("no mark"))
    yield Break("anthropic", "the mark is too far away", _far, Expected("too far"), before=_long)
    yield Break(
        "anthropic",
        "it is too short for the model",
        _nothing,
        Expected("too short"),
        before=lambda body: body.update(model="claude-opus-4-5"),
        least=4_096,
    )


CALL = {"type": "tool_use", "id": "toolu_1", "name": "Alpha", "input": {"path": "a"}}


def _with_work(body: Json) -> None:
    """Have the second and third message be a call with thinking, and its result."""
    thought = {"type": "thinking", "thinking": f"I wonder. {WORDS}", "signature": "c2ln"}
    body["messages"][1]["content"] = [thought, {"type": "text", "text": TEXTS[1]}, CALL]
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": f"RESULT {LONG}"}
    body["messages"][2]["content"] = [result, {"type": "text", "text": TEXTS[2]}]


def _of_forms() -> Iterator[Break]:
    """Yield what Claude Code does to a history by itself."""

    def without_thinking(body: Json) -> None:
        del body["messages"][1]["content"][0]

    def cleared(body: Json) -> None:
        body["messages"][2]["content"][0]["content"] = "[Old tool result content cleared]"

    def as_text(body: Json) -> None:
        for message in body["messages"]:
            if len(message["content"]) == 1 and "cache_control" not in message["content"][0]:
                message["content"] = message["content"][0]["text"]

    yield Break(
        "anthropic",
        "thinking was removed",
        without_thinking,
        Expected("history", "thinking removed", "/messages/1/content/0", -1, "wonder"),
        before=_with_work,
    )
    yield Break(
        "anthropic",
        "a result was cleared",
        cleared,
        Expected("history", "cleared", "/messages/2/content/0/content", 0, "RESULT"),
        before=_with_work,
    )
    yield Break("anthropic", "texts alone are no lists", as_text)
    yield Break("anthropic", "nothing changed, with calls", _nothing, before=_with_work)
