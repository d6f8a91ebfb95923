"""Questions of tools, and their answers, in words."""

from __future__ import annotations

import json
from typing import Any

from stenolog.domain.values import Control, ToolQuestion


def choices_of(question: ToolQuestion) -> tuple[str, ...]:
    """Return the answers to choose from, if there are a few: also those of a schema."""
    if question.choices:
        return tuple(question.choices)
    allowed = question.expects.get("enum")
    if isinstance(allowed, list | tuple) and (words := [each for each in allowed if isinstance(each, str)]):
        return tuple(words) if len(words) == len(allowed) else ()
    return ("yes", "no") if question.expects.get("type") == "boolean" else ()


def schema_of(question: ToolQuestion) -> dict[str, Any]:
    """Return the JSON Schema of a question's answer."""
    if question.choices:
        return {"type": "string", "enum": list(question.choices)}
    return dict(question.expects) or {"type": "string"}


def in_words(question: ToolQuestion) -> str:
    """Return a question as a person reads it: its text, and the numbered choices or what is expected."""
    numbered = [f"{nth}. {choice}" for nth, choice in enumerate(choices_of(question), 1)]
    if not numbered and question.expects and question.expects.get("type") != "string":
        numbered = [f"expected: {_expected(question.expects)}"]
    return "\n".join((question.text, *numbered))


def on_one_line(question: ToolQuestion) -> str:
    """Return a question and its choices on one line."""
    offered = choices_of(question)
    return " ".join(question.text.split()) + (f" ({' / '.join(offered)})" if offered else "")


def words_of(control: Control | None) -> str:
    """Return the words of a question or of an answer, on one line; empty for any other command."""
    if control is None or control.action not in ("ask", "answer"):
        return ""
    if control.question is not None:
        return on_one_line(control.question)
    value = json_or(control.answer, control.answer)
    return value if isinstance(value, str) else control.answer


def json_or(text: str, otherwise: Any) -> Any:
    """Return a text as JSON; `otherwise` if it is none."""
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
