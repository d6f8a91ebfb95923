"""All changes of a request that break a prompt cache, or do not: of tools, system prompt, history first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tests.analysis.cache_break import APIS, LONG, TEXTS, TOOLS, Break, Expected, Form, base
from tests.analysis.cache_settings import harmless_ones, of_forms, of_marks, of_models, of_settings, of_time
from tests.recording.programs import Json, said, tool


def breaks() -> list[Break]:
    """Return all of them."""
    found = [one for api in APIS for one in (*_of_tools(api), *_of_system(api), *_of_history(api))]
    settings = (of_settings(), of_models(), harmless_ones(), of_time(), of_marks(), of_forms())
    return [*found, *(one for group in settings for one in group)]


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
        holder, key = place(base(api, TEXTS))
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
