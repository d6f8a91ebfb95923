"""Mutations of bodies, by API: each breaks what a law, or a judge of the provider's, forbids."""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

Body = dict[str, Any]
Place = tuple[list[Body], int]
Mutation = Callable[[Random, Body], bool]
"""Breaks a body; returns whether it could."""


def places(body: Body, kind: str) -> list[Place]:
    """Return the lists and indexes of the items, blocks or parts of a kind."""
    if "input" in body:
        return [(body["input"], i) for i, item in enumerate(body["input"]) if item["type"] == kind]
    found: list[Place] = []
    for content in body.get("contents", ()):
        found += [(content["parts"], k) for k, part in enumerate(content["parts"]) if kind in part]
    for i, message in enumerate(body.get("messages", ())):
        blocks = message["content"] if isinstance(message["content"], list) else []
        found += [(blocks, k) for k, block in enumerate(blocks) if block["type"] == kind]
        if (message["role"], kind) == ("tool", "tool_result"):
            found.append((body["messages"], i))
    return found


def some(kind: str, change: Callable[[Random, list[Body], int], object]) -> Mutation:
    """Change one of a kind."""

    def mutation(random: Random, body: Body) -> bool:
        found = places(body, kind)
        return bool(found) and change(random, *random.choice(found)) is not False

    return mutation


def drop(kind: str) -> Mutation:
    return some(kind, lambda _, items, i: items.pop(i))


def double(kind: str) -> Mutation:
    return some(kind, lambda _, items, i: items.insert(i, copy.deepcopy(items[i])))


def put(kind: str, field: str, *values: object) -> Mutation:
    """Set a field, with a dot if it is in another one, to one of these values."""

    def change(random: Random, items: list[Body], i: int) -> None:
        inner, _, name = field.rpartition(".")
        (items[i][inner] if inner else items[i])[name] = random.choice(values)

    return some(kind, change)


def move(kind: str, index: int) -> Mutation:
    """Move an item to the beginning (0), or to the end (-1)."""

    def mutation(random: Random, body: Body) -> bool:
        found = [place for place in places(body, kind) if place[0] is body.get("input", body.get("messages"))]
        if not found:
            return False
        items, i = random.choice(found)
        item = items.pop(i)
        items.insert(len(items) if index else 0, item)
        return items[i] is not item

    return mutation


def whole(change: Callable[[Random, Body], object]) -> Mutation:
    """Change the body itself."""
    return lambda random, body: change(random, body) is not False


UNFIT = ("a b", "", "x" * 200)


def _trailing_thought(random: Random, body: Body) -> bool:
    turns = [m for m in body["messages"] if m["role"] == "assistant" and isinstance(m["content"], list)]
    if not turns or "max_tokens" not in body:
        return False
    random.choice(turns)["content"].append({"type": "thinking", "thinking": "hm", "signature": "sig"})
    return True


def _rename_result(random: Random, items: list[Body], i: int) -> None:
    items[i]["tool_call_id" if "role" in items[i] else "tool_use_id"] = random.choice(("c9", "stranger"))


def _unfit_name(random: Random, body: Body) -> None:
    body["tools"][0].get("function", body["tools"][0])["name"] = random.choice(UNFIT)


def _no_tools(random: Random, body: Body) -> None:
    body["tools"] = []
    if "max_tokens" in body:
        del body["tools"]


def _foreign_part(random: Random, items: list[Body], i: int) -> None:
    odd = "input_text" if items[i]["role"] == "assistant" else "output_text"
    items[i]["content"] = [{"type": odd, "text": "hello"}]


def _reasoning_by_its_id(random: Random, items: list[Body], i: int) -> None:
    items[i]["id"] = "rs_1"
    del items[i]["encrypted_content"]


def _reference(random: Random, body: Body) -> None:
    body["input"].insert(0, {"type": random.choice(("item_reference", "telepathy")), "id": "msg_1"})


def _nothing_at_all(random: Random, body: Body) -> None:
    del body["input"], body["instructions"]


def _move_response(random: Random, body: Body) -> bool:
    parts, k = random.choice(places(body, "functionResponse"))
    body["contents"].append({"role": "user", "parts": [parts.pop(k)]})
    return parts is not body["contents"][-2]["parts"]


def _unfit_function(random: Random, body: Body) -> None:
    function = random.choice(body["tools"][0]["functionDeclarations"])
    function["name"] = random.choice((*UNFIT, "7zip", "shell"))


def _swapped_role(random: Random, body: Body) -> None:
    content = random.choice(body["contents"])
    content["role"] = "user" if content["role"] == "model" else "model"


CHAT: dict[str, Mutation] = {
    "drop result": drop("tool_result"),
    "double result": double("tool_result"),
    "rename result": some("tool_result", _rename_result),
    "move result": move("tool_result", -1),
    "blank text": put("text", "text", "", " ", "\n"),
    "trailing thought": _trailing_thought,
    "unsigned thought": put("thinking", "signature", ""),
    "unfit name": whole(_unfit_name),
    "no tools": whole(_no_tools),
}
MUTATIONS: dict[str, dict[str, Mutation]] = {
    "openai-chat": CHAT,
    "anthropic": CHAT,
    "openai-responses": {
        "drop output": drop("function_call_output"),
        "drop call": drop("function_call"),
        "rename output": put("function_call_output", "call_id", "c9", "stranger"),
        "rename call": put("function_call", "call_id", "", "x" * 65),
        "output first": move("function_call_output", 0),
        "odd output": put("function_call_output", "output", None, {"a": 1}),
        "reasoning last": move("reasoning", -1),
        "reasoning before the user": move("reasoning", 0),
        "reasoning by its id": some("reasoning", _reasoning_by_its_id),
        "no summary": some("reasoning", lambda _, items, i: items[i].pop("summary")),
        "foreign part": some("message", _foreign_part),
        "odd role": put("message", "role", "tool", "model"),
        "odd id": whole(
            lambda random, body: random.choice(body["input"]).update(
                id=random.choice(("a b", "x" * 65, "id_1"))
            )
        ),
        "reference": whole(_reference),
        "unfit name": whole(_unfit_name),
        "unfit name of a call": put("function_call", "name", *UNFIT),
        "no arguments": put("function_call", "arguments", None, {}),
        "an object without the word": whole(
            lambda _, body: body.update(text={"format": {"type": "json_object"}})
        ),
        "nothing at all": whole(_nothing_at_all),
    },
    "gemini": {
        "drop response": drop("functionResponse"),
        "double response": double("functionResponse"),
        "move response": _move_response,
        "nameless response": put("functionResponse", "functionResponse.name", ""),
        "spoken response": put("functionResponse", "functionResponse.response", "one", ["one"], None),
        "written arguments": put("functionCall", "functionCall.args", "{}"),
        "unsigned call": some("functionCall", lambda _, parts, k: bool(parts[k].pop("thoughtSignature", ""))),
        "unfit name": whole(_unfit_function),
        "strange role": whole(
            lambda random, body: random.choice(body["contents"]).update(
                role=random.choice(("assistant", "system", "tool"))
            )
        ),
        "swapped role": whole(_swapped_role),
        "no parts": whole(lambda random, body: random.choice(body["contents"]).update(parts=[])),
        "two in one": put("functionCall", "text", "and"),
        "strange key": put("text", "cache_control", {"type": "ephemeral"}),
        "no last turn": whole(lambda _, body: body["contents"].pop()),
        "no first turn": whole(lambda _, body: body["contents"].pop(0)),
    },
}
