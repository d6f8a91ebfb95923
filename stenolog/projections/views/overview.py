"""One conversation in a few facts, for a list of many: subject, place, length and cost.

>>> overview([]).turns
0
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, UserMessage
from stenolog.domain.lanes.limits import Tokens, added
from stenolog.domain.values import Usage
from stenolog.projections.fold import Fold

from .usage import counts_elsewhere, is_new_session, understates

LONGEST = 100
"""The characters of the first words."""
READ = 100 * LONGEST
"""The characters that are searched for them: a program may have put long texts in front."""
WRAPPED = re.compile(r"\s*<([a-z]+(?:[-_][a-z]+)+)>.*?</\1>", re.DOTALL)
"""Text that a program put around the words of a person: its tag has a name of several words."""
COMMAND = re.compile(r"<command-(name|args)>(.*?)</command-\1>", re.DOTALL)
"""A command of Claude Code, as its sessions have it: its name and its arguments."""


class Overview(NamedTuple):
    """The facts of one conversation.

    `words` are a person's first, on one line. `folder` is the working folder noted first, `branch` the branch
    noted last. `turns` counts the messages of persons, `errors` the failed model calls that no person
    interrupted, `answers` those of each agent, `models` those of each model. `tokens` are by model, `billed`
    those of calls that state their cost. `partial` counts the answers whose usage is unknown or too low.
    `cards` has the model on each agent's card. `asks_person`: a framework waits for a person's answer.
    """

    words: str = ""
    folder: str = ""
    branch: str = ""
    turns: int = 0
    errors: int = 0
    answers: dict[str, int] = {}  # noqa: RUF012 - never changed in place
    models: dict[str, int] = {}  # noqa: RUF012 - as above
    tokens: dict[str, Tokens] = {}  # noqa: RUF012 - as above
    billed: dict[str, Tokens] = {}  # noqa: RUF012 - as above
    partial: int = 0
    cards: dict[str, str] = {}  # noqa: RUF012 - as above
    asks_person: bool = False


def person_words(text: str) -> str:
    """Return a person's words without what a program put around them; a command as it is typed.

    >>> person_words("<system-reminder>Be brief.</system-reminder> Fix the test.")
    'Fix the test.'
    """
    begun = text[:READ]
    command = " ".join(inner.strip() for _, inner in COMMAND.findall(begun)).strip()
    return command or " ".join(WRAPPED.sub("", begun).split())


def _take(now: Overview, entry: Entry) -> Overview:
    event = entry.event
    match event:
        case UserMessage(meta={"stenolog": {"asks_person": bool(asks)}}):
            return now._replace(asks_person=asks)
        case _ if counts_elsewhere(event):
            return now
        case UserMessage(author_kind="person", control=None, in_context=True):
            words = now.words or _shortened(person_words(event.text))
            turns = now.turns + (event.replaces is None)
            return now._replace(words=words, turns=turns, asks_person=False)
        case ModeSwitch():
            return _noted(now, event)
        case AssistantMessage(agent=agent):
            now = now._replace(asks_person=now.asks_person and not event.in_context)
            model = event.model or now.cards.get(agent, "")
            counted = now._replace(answers=_more(now.answers, agent), models=_more(now.models, model))
            return _used(counted, model, event.usage, is_partial=event.usage is None or understates(event))
        case LlmError(agent=agent):
            model = event.model or now.cards.get(agent, "")
            is_none = event.category == "cancelled" or is_new_session(event)
            counted = now if is_none else now._replace(errors=now.errors + 1)
            return _used(counted, model, event.usage, is_partial=False)
        case _:
            return now


def _noted(now: Overview, event: ModeSwitch) -> Overview:
    """Return the overview with the models on an event's cards, and with the place that an importer noted.

    The note is `{"codex": {"cwd": "/home/user/bakery", "branch": "main"}}`.
    """
    named = {agent: card.model for agent, card in event.cards.items() if card is not None and card.model}
    if named:
        now = now._replace(cards={**now.cards, **named})
    folder, branch = _working_place(event.meta)
    return now._replace(folder=now.folder or folder, branch=branch or now.branch) if folder or branch else now


def _working_place(meta: Mapping[str, Any]) -> tuple[str, str]:
    folder = branch = ""
    for noted in meta.values():
        if isinstance(noted, dict):
            cwd, on = noted.get("cwd"), noted.get("branch")
            folder = folder or (cwd if isinstance(cwd, str) else "")
            branch = branch or (on if isinstance(on, str) else "")
    return folder, branch


def _used(now: Overview, model: str, usage: Usage | None, *, is_partial: bool) -> Overview:
    if usage is not None and usage.cost is not None:
        now = now._replace(billed=added(now.billed, model, usage))
    elif usage is not None:
        now = now._replace(tokens=added(now.tokens, model, usage))
    return now._replace(partial=now.partial + 1) if is_partial else now


def _more(counts: dict[str, int], name: str) -> dict[str, int]:
    return {**counts, name: counts.get(name, 0) + 1} if name else counts


def _shortened(words: str) -> str:
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"


overview = Fold("overview", Overview(), _take, version=4, state=Overview)
"""The fold: `overview(entries)`."""
