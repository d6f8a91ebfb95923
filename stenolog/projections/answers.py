"""Answers to questions of tools: whether one fits, and a person's text as an answer."""

from __future__ import annotations

from typing import Any

from stenolog.domain.errors import InvalidEventError
from stenolog.domain.values import ToolQuestion

from .json_checks import misfit
from .questions import choices_of, json_or

WORDS = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}


def check_answer(question: ToolQuestion, value: Any) -> None:
    """Raise `InvalidEventError` for a value, from JSON, that does not answer the question."""
    if question.choices and value not in question.choices:
        listed = ", ".join(map(repr, question.choices))
        raise InvalidEventError(f"answer: expected one of {listed:.300}, found {value!r:.100}")
    if not question.choices and not question.expects and not isinstance(value, str):
        raise InvalidEventError(f"answer: expected a text, found {value!r:.100}")
    if wrong := misfit(value, question.expects, "answer"):
        raise InvalidEventError(wrong)


def answer_from(question: ToolQuestion, text: str) -> Any:
    """Return a person's text as an answer: a choice or its number, yes or no, JSON, or the text itself.

    Raises `InvalidEventError` if it does not fit.
    """
    said, offered = text.strip(), choices_of(question)
    by_word = {choice.casefold(): choice for choice in reversed(offered)}
    chosen = by_word.get(said.casefold())
    if chosen is None and said.isascii() and said.isdigit() and 1 <= int(said) <= len(offered):
        chosen = offered[int(said) - 1]
    value: Any = said if chosen is None else chosen
    if question.expects.get("type") == "boolean":
        value = WORDS.get(str(value).casefold(), value)
    if question.expects and misfit(value, question.expects):
        value = json_or(said, value)
    check_answer(question, value)
    return value
