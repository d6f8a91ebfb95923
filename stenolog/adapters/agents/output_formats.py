"""JSON lines that agents' programs write: plain ones, and those of `PROGRAMS`."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from stenolog.adapters.plugins import ProgramRegistry
from stenolog.domain.values import COUNTS, Usage
from stenolog.projections.messages.json_fields import as_int, as_str
from stenolog.projections.programs import PROGRAMS, Program

from .answer_buffer import ResponseBuilder

Reader: TypeAlias = Callable[[dict[str, Any], ResponseBuilder], None]
"""Adds to the turn what one line says, if it says something. Raises `ModelError`."""


def prompted(prompt: str) -> dict[str, Any]:
    """Return the default request: `{"prompt": …}`."""
    return {"prompt": prompt}


@dataclass(frozen=True)
class JsonLines:
    """Form of a program's JSON lines.

    `read` parses a line of its output. `ask` makes a request's line for a long-lived program; a one-shot one
    gets the bare prompt. `resume` are the arguments that resume a session, with `{session}` for its id;
    without them a session ends with its process. `speak` are the arguments that make it write such lines,
    `listen` those that make it read them; a command with the first of them has them all. `charges`: whether
    the program states its cost.
    """

    read: Reader
    ask: Callable[[str], dict[str, Any]] = prompted
    resume: tuple[str, ...] = ()
    speak: tuple[str, ...] = ()
    listen: tuple[str, ...] = ()
    charges: Literal["listed", "stated"] = "listed"


def read(line: dict[str, Any], turn: ResponseBuilder) -> None:
    """Read a line of a custom program. Lines differ by `type`; other types are skipped:

    - `text`, `reasoning`: more of it, in `text`
    - `session`: the `id` of the session
    - `note`: an action of the program itself, kept as it is
    - `result`: the end; with `text` if the answer did not stream, and optional `session`, `model`,
      `finish_reason`, `usage` (the counts of `Usage`)
    - `error`: the end, with a `message`, and optional `category` of `llm_error` and `retry_after` in seconds
    """
    match line.get("type"):
        case "text":
            turn.add_text(as_str(line.get("text")))
        case "reasoning":
            turn.add_reasoning(as_str(line.get("text")))
        case "session":
            turn.session = as_str(line.get("id")) or turn.session
        case "note":
            turn.add_note(line)
        case "result":
            _result(line, turn)
        case "error":
            turn.fail(as_str(line.get("message")), as_str(line.get("category")), line.get("retry_after"))
        case _:
            pass


def _result(line: dict[str, Any], turn: ResponseBuilder) -> None:
    turn.session = as_str(line.get("session")) or turn.session
    turn.model = as_str(line.get("model")) or turn.model
    turn.finish_reason = as_str(line.get("finish_reason"))
    if isinstance(counted := line.get("usage"), dict):
        counts: dict[str, Any] = {name: as_int(counted.get(name)) for name in COUNTS}
        turn.usage = Usage(**counts)
    turn.finish(as_str(line.get("text")))


class _OutputFormats(ProgramRegistry[JsonLines]):
    def _take(self, program: Program) -> None:
        if program.output is not None:
            self._take_late(program.name, program.output)


OUTPUT_FORMATS = _OutputFormats("an output format other than text", {"jsonl": JsonLines(read)})
"""The forms of JSON lines by their names; "text", plain text, is none of them."""


def split_command(command: str) -> tuple[str, str]:
    """Return a command line as its program needs it, and the name of its format.

    A known program that is told to write otherwise speaks plain text.
    """
    words = shlex.split(command)
    for program in PROGRAMS.values():
        if words and program.is_command(words[0]) and program.output is not None:
            full = program.command(words)
            if full is not None:
                return command if full == words else shlex.join(full), program.name
    return command, "text"


def lines(form: str | JsonLines) -> JsonLines | None:
    """Return the form of that name; None for plain text. Raises `NotRegisteredError`."""
    if isinstance(form, JsonLines):
        return form
    return None if form == "text" else OUTPUT_FORMATS[form]
