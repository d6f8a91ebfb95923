"""Questions of tools: their words, whether an answer fits, and a person's text as an answer."""

from __future__ import annotations

import json
from typing import Any

from stenolog.domain.errors import InvalidEventError
from stenolog.domain.values import Question

from .json_checks import misfit

WORDS = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}


def choices_of(question: Question) -> tuple[str, ...]:
    """Return the answers to choose from, if there are a few: also those of a schema."""
    if question.choices:
        return tuple(question.choices)
    allowed = question.expects.get("enum")
    if isinstance(allowed, list | tuple) and (words := [each for each in allowed if isinstance(each, str)]):
        return tuple(words) if len(words) == len(allowed) else ()
    return ("yes", "no") if question.expects.get("type") == "boolean" else ()


def in_words(question: Question) -> str:
    """Return a question as a person reads it: its text, and the numbered choices or what is expected."""
    numbered = [f"{nth}. {choice}" for nth, choice in enumerate(choices_of(question), 1)]
    if not numbered and question.expects and question.expects.get("type") != "string":
        numbered = [f"expected: {_expected(question.expects)}"]
    return "\n".join((question.text, *numbered))


def on_one_line(question: Question) -> str:
    """Return a question and its choices on one line."""
    offered = choices_of(question)
    return " ".join(question.text.split()) + (f" ({' / '.join(offered)})" if offered else "")


def check_answer(question: Question, value: Any) -> None:
    """Raise `InvalidEventError` for a value, from JSON, that does not answer the question."""
    if question.choices and value not in question.choices:
        listed = ", ".join(map(repr, question.choices))
        raise InvalidEventError(f"answer: expected one of {listed:.300}, found {value!r:.100}")
    if not question.choices and not question.expects and not isinstance(value, str):
        raise InvalidEventError(f"answer: expected a text, found {value!r:.100}")
    if wrong := misfit(value, question.expects, "answer"):
        raise InvalidEventError(wrong)


def answer_from(question: Question, text: str) -> Any:
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
        value = _json(said, value)
    check_answer(question, value)
    return value


def _json(text: str, otherwise: Any) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return otherwise


def _expected(schema: Any) -> str:
    fields = schema.get("properties")
    if schema.get("type") == "object" and isinstance(fields, dict):
        names = ", ".join(f'"{name}": {_kind(inner)}' for name, inner in fields.items())
        return f"{{{names}}}"
    return _kind(schema)


def _kind(schema: Any) -> str:
    kind = schema.get("type") if isinstance(schema, dict) else None
    return str(kind) if isinstance(kind, str) else "JSON"
