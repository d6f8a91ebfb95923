"""Questions that a tool asks a person while it runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic_core import ValidationError

from stenolog.domain.errors import InvalidEventError, ToolError
from stenolog.domain.values import ToolQuestion
from stenolog.projections.answers import check_answer


class QuestionAsked(BaseException):
    """The end of a tool's run: its call runs again from the beginning once the question has an answer."""


class Asking:
    """A call's questions: those with answers, as JSON, and the one that is `open` after a run."""

    def __init__(self, answered: Iterable[tuple[ToolQuestion, str]] = ()) -> None:
        self._answered = [*answered]
        self.open: ToolQuestion | None = None

    def add(self, answered: Iterable[tuple[ToolQuestion, str]]) -> None:
        """Add questions that have answers."""
        self._answered += answered

    def ask(self, text: str, choices: Iterable[str], schema: Any) -> Any:
        """Return the recorded answer to a question. Raises `QuestionAsked` if there is none yet.

        An answer that does not fit is asked for again, with the reason.
        """
        question, read = _question(text, choices, schema)
        wanted = question
        while True:
            answer = self.require(wanted)
            try:
                check_answer(question, json.loads(answer))
                return read(answer)
            except (InvalidEventError, ValidationError) as error:
                wanted = replace(question, text=f"{text}\n({_reason(error)})")

    def require(self, question: ToolQuestion) -> str:
        """Return the JSON of the first answer to the same question that was not used yet.

        Raises `QuestionAsked`.
        """
        # By its words and not by its number, so that no answer is taken for one to another question.
        for nth, (asked, answer) in enumerate(self._answered):
            if asked == question:
                del self._answered[nth]
                return answer
        # Also if the tool catches the exception: it can do nothing without the answer.
        self.open = self.open or question
        raise QuestionAsked(question.text)


def _question(text: str, choices: Iterable[str], schema: Any) -> tuple[ToolQuestion, Callable[[str], Any]]:
    """Return the question, and what reads the JSON of its answer. Raises `ToolError`."""
    offered = (choices,) if isinstance(choices, str) else tuple(choices)
    if not isinstance(text, str) or not text.strip():
        raise ToolError(f"ask: expected a question, found {text!r:.100}")
    if len(offered) == 1 or not all(isinstance(each, str) and each for each in offered):
        raise ToolError(f"ask: choices: expected several texts, found {choices!r:.100}")
    if schema is None:
        return ToolQuestion(text=text, choices=offered), json.loads
    if offered:
        raise ToolError("ask: expected choices or a schema, found both")
    if isinstance(schema, Mapping):
        return ToolQuestion(text=text, expects=dict(schema)), json.loads
    return _typed(text, schema)


def _typed(text: str, schema: Any) -> tuple[ToolQuestion, Callable[[str], Any]]:
    from pydantic import TypeAdapter  # late: few questions have a type
    from pydantic.errors import PydanticUserError

    try:
        adapter = TypeAdapter[Any](schema)
        expects = adapter.json_schema()
    except (PydanticUserError, TypeError, NameError) as error:
        what = str(error).partition("\n")[0]
        raise ToolError(f"ask: schema: expected a type that has a JSON Schema: {what}") from None
    return ToolQuestion(text=text, expects=expects), partial(adapter.validate_json, strict=False)


def _reason(error: InvalidEventError | ValidationError) -> str:
    if isinstance(error, InvalidEventError):
        return str(error)
    first = error.errors(include_url=False)[0]
    place = "".join(f"/{step}" for step in first["loc"])
    return f"answer{place}: {first['msg'].replace('Value error, ', '')}"
