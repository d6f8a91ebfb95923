"""Laws of each API, what it refuses: `validate` says where a body breaks one. No request built here does.

They judge bodies of our own making. A body of another shape raises nothing: what a law cannot read breaks it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from stenolog.domain.registry import Registry
from stenolog.projections.requests.apis import APIS, Api
from stenolog.projections.requests.pipeline.quoting import markers

from . import anthropic, gemini, openai_chat, openai_responses
from .checks import Body, Finding, IncrementalValidator, Law, Steps, Violation, blank, law, stateful

__all__ = [
    "LAWS",
    "IncrementalValidator",
    "Law",
    "Violation",
    "validate",
    "validator_of",
]


TURN = re.compile(r"(?:User|Assistant|System|Tool)(?: \([^()\n:]*\))?:", re.IGNORECASE)


@law
def prompt_present(body: Body) -> Iterator[Finding]:
    """The prompt says something."""
    if not isinstance(body.get("prompt"), str) or blank(body.get("prompt")):
        yield "/prompt", repr(body.get("prompt"))


@stateful(int)
def no_forged_marker(begins: int, at: str, paragraph: str) -> Steps:
    """A marker stands only where a turn begins: at the start, or behind a blank line."""
    for place in markers(paragraph):
        is_behind_blank = place == 0 or (begins > 0 and paragraph[:place] == "\n")
        if not is_behind_blank or not TURN.match(paragraph, place):
            yield "/prompt", f"{paragraph[place : place + 40]!r} at character {begins + place}"
    return begins + len(paragraph) + 2


PLAIN_LAWS: tuple[Law, ...] = (prompt_present, no_forged_marker)


LAWS: Registry[tuple[Law, ...]] = Registry(
    "an API",
    {
        "openai-chat": openai_chat.LAWS,
        "openai-responses": openai_responses.LAWS,
        "anthropic": anthropic.LAWS,
        "gemini": gemini.LAWS,
        "plain": PLAIN_LAWS,
    },
)
"""The laws of each API by its name; an API of a plugin may have none."""


def validate(api: str, body: Body) -> list[Violation]:
    """Return every place where a body breaks a law of its API (given with or without its version).

    Raises `NotRegisteredError` for an API that is not known.
    """
    return validator_of(api).violations(body)


def validator_of(api: str) -> IncrementalValidator:
    """Return a validator for consecutive bodies; it does not read unchanged messages again."""
    name = api.partition("@")[0]
    return IncrementalValidator(LAWS[name], APIS[name].messages)


def register_api(api: Api, laws: Iterable[Law] = ()) -> Api:
    """Register an API by its name, where the program begins.

    `laws` are those by which `check requests` and `check file` judge its requests. Raises
    `CallerError` where another API has the name.
    """
    APIS.add(api.name, api)
    if api.name in LAWS:
        LAWS.remove(api.name)
    LAWS.add(api.name, tuple(laws))
    return api
