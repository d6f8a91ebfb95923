"""A script for a model, in a file of JSON: a list of turns, or an object that has it as `turns`.

    ["Hello.",
     [{"type": "text", "text": "Let me look."}, {"type": "tool_call", "name": "ls", "arguments": {}}],
     {"error": "rate_limited", "message": "too fast"}]

A turn is a text, a part of a message, a list of both, or an error. `pause` (seconds), `piece` (characters)
and `endless` may stand beside `turns`; see `Scripted`. A program that is started again goes on in the script
behind the answers that its first request shows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from stenolog.domain.errors import CallerError, ModelError
from stenolog.domain.events import ErrorCategory
from stenolog.domain.parts import AssistantPart, TextPart

from .base import ModelCall, ModelResponse, Timeouts
from .scripted import TIMEOUTS, Scripted

OPTIONS = ("turns", "pause", "piece", "endless")
PART: TypeAdapter[AssistantPart] = TypeAdapter(AssistantPart)


class ScriptFile(Scripted):
    """A script that is taken up again where a conversation stands."""

    def _answer(self, prompt: ModelCall) -> ModelResponse:
        if not self._next:
            said = sum(message.get("role") == "assistant" for message in prompt.body["messages"])
            number = len(self._turns)
            self._next = said % number if self._endless and number else min(said, number)
        return super()._answer(prompt)


def scripted(path: str, *, timeouts: Timeouts = TIMEOUTS) -> Scripted:
    """The model that answers by the script in a file. Raises `CallerError`, `OSError`."""
    text = Path(path).read_text(encoding="utf-8")
    try:
        given: Any = json.loads(text)
    except ValueError as error:
        raise CallerError(f"{path}: expected a script as JSON: {error}") from None
    script = given if isinstance(given, dict) else {"turns": given}
    if not isinstance(script.get("turns"), list) or (strange := sorted(script.keys() - {*OPTIONS})):
        found = f"the key {strange[0]!r}" if isinstance(script.get("turns"), list) else "no list of turns"
        raise CallerError(
            f"{path}: expected a list of turns, or an object of {', '.join(OPTIONS)}; found {found}"
        )
    turns = [_turn(turn, number, path) for number, turn in enumerate(script["turns"], 1)]
    options = {name: value for name, value in script.items() if name != "turns"}
    return ScriptFile(*turns, name=Path(path).stem, timeouts=timeouts, **options)


def _turn(given: Any, number: int, path: str) -> Any:
    where = f"{path}: turn {number}"
    match given:
        case list():
            parts = enumerate(given, 1)
            return [_part(part, f"{where}, part {nth}", f"call_{number}_{nth}") for nth, part in parts]
        case {"error": category, **rest}:
            return _error(category, rest, where)
        case _:
            return _part(given, where, f"call_{number}")


def _error(category: object, rest: Mapping[Any, Any], where: str) -> ModelError:
    known = get_args(ErrorCategory)
    if category not in known:
        raise CallerError(f"{where}: error: expected one of {', '.join(known)}; found {category!r:.60}")
    return ModelError(str(category), str(rest.get("message", "")), retry_after=rest.get("retry_after"))


def _part(given: Any, where: str, id: str) -> AssistantPart:
    """A part as the log has it; a call may have an object as its arguments, and no id: it gets this one."""
    if isinstance(given, str):
        return TextPart(text=given)
    if isinstance(given, dict) and given.get("type") == "tool_call":
        arguments = given.get("arguments", {})
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
        given = {"id": id} | given | {"arguments": arguments}
    try:
        return PART.validate_json(json.dumps(given))  # as the log reads them
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "/".join(map(str, first["loc"][1:]))
        raise CallerError(f"{where}: {place}: {first['msg']}".replace(": :", ":")) from None
