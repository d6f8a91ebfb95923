"""The page of all that a request is made by, drawn from the code; run by `python docs/generate.py`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields

from stenolog.domain.policy import HISTORIES, RULES, PolicyRule
from stenolog.projections.formats import FORMATS
from stenolog.projections.messages.message import PIPELINES
from stenolog.projections.messages.rules import REPAIRS, STAGES
from stenolog.projections.requests import PIPELINE
from stenolog.projections.requests.pipeline.budget import KEPT, RESERVE
from stenolog.projections.requests.pipeline.must_stay import KEEP_REASONS

MADE = "<!-- Made by `python docs/generate.py`; change the code, not this page. -->"
EARLIER = "`, `".join(name for name in PIPELINES if name != PIPELINE)
ABOUT = f"""\
What a request is made by. The pipeline is `{PIPELINE}`; receipts of `{EARLIER}` are proved by its own rules.
Why: [How a request is built](../explanation/requests.md). Yours: [A policy](../how-to/extend.md#a-policy).
"""
POLICIES = """\
## Context policies

From `stenolog.context`, joined by `|`: of two with one slot the later counts. A card holds them as JSON.
"""
WINDOW = f"""\
## What no cut removes

A budget reserves room for persona, tools and notes: their size, at least 1/{RESERVE} of it, or `reserve`.
When the window exceeds the rest, it is cut to 1/{KEPT} of that. Whole units go, the oldest first. These stay:
"""
RULES_HEAD = """\
## Rules

Each part of a request names one. A rule with * mends what a provider would refuse.
"""


def requests() -> str:
    """Return the policies, the rules by stage, and the laws of each API."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield f"# Requests\n\n{MADE}\n\n{ABOUT}"
    yield POLICIES
    yield "| policy | slot | what it asks for |\n|---|---|---|"
    ours = {kind: cls for kind, cls in HISTORIES.items() if cls.__module__.startswith("stenolog.")}
    histories = {cls: f'`history`, kind `"{kind}"`' for kind, cls in ours.items()}
    for cls, slot in {**histories, **{cls: f"`{slot}`" for slot, cls in RULES.items()}}.items():
        yield f"| `{_signature(cls)}` | {slot} | {_flat(cls.__doc__)} |"
    yield f"\n{WINDOW}"
    yield from (f"- `{name}`: {_flat(why.__doc__)}" for name, why in KEEP_REASONS.items())
    yield f"\n{RULES_HEAD}"
    for stage, rules in STAGES.items():
        yield f"### {stage[0].upper()}{stage[1:]}\n"
        yield from (f"- `{rule}`{'*' if rule in REPAIRS else ''}: {does}" for rule, does in rules.items())
        yield ""
    yield "## Laws\n\nWhat the APIs demand; `stenolog check requests` applies it.\n"
    users = dict[str, list[str]]()
    for api, format in FORMATS.items():
        for law in format.laws:
            users.setdefault(f"- `{law.name}`: {law.says}", []).append(api)
    for apis in dict.fromkeys(map(", ".join, users.values())):
        yield f"### {apis}\n"
        yield from (law for law, demanding in users.items() if ", ".join(demanding) == apis)
        yield ""


def _signature(cls: type[PolicyRule]) -> str:
    """Return the class with its fields and their defaults, as one would write it."""
    shown = []
    for field in fields(cls):  # type: ignore[arg-type]
        default = getattr(field.default, "default", field.default)
        factory = getattr(field.default, "default_factory", None) or field.default_factory
        given = default if factory in (None, MISSING) else factory()
        needed = (field.default is MISSING and factory is MISSING) or repr(given) == "PydanticUndefined"
        shown.append(field.name if needed else f"{field.name}={given!r}")
    return f"{cls.__name__}({', '.join(shown)})".replace("|", "\\|")


def _flat(text: str | None) -> str:
    return " ".join(inspect.cleandoc(text or "").split()).replace("|", "\\|")


PAGES: dict[str, Callable[[], str]] = {"reference/requests.md": requests}
