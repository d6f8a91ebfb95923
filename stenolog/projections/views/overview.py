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

from .usage import counts_elsewhere, is_api_error, leaves_unknown, understates

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
    those of calls that state their cost. `partial` counts the calls whose usage is unknown or too low.
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
        case UserMessage() if _is_spoken(event):
            words = now.words or shortened(person_words(event.text))
            turns = now.turns + (event.replaces is None)
            return now._replace(words=words, turns=turns, asks_person=False)
        case ModeSwitch():
            return _noted(now, event)
        case AssistantMessage(agent=agent):
            now = now._replace(asks_person=now.asks_person and not event.in_context)
            model = event.model or now.cards.get(agent, "")
            counted = now._replace(answers=_more(now.answers, agent), models=_more(now.models, model))
            return _used(counted, event, is_partial=leaves_unknown(event) or understates(event))
        case LlmError():
            counted = now._replace(errors=now.errors + is_api_error(event))
            return _used(counted, event, is_partial=leaves_unknown(event))
        case _:
            return now


def _noted(now: Overview, event: ModeSwitch) -> Overview:
    """Return the overview with the models on an event's cards, and with the place that an importer noted.

    The note is `{"codex": {"cwd": "/home/user/bakery", "branch": "main"}}`.
    """
    if named := models_on(event):
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


def _used(now: Overview, event: AssistantMessage | LlmError, *, is_partial: bool) -> Overview:
    if used := used_by(event, now.cards):
        if used[1].cost is None:
            now = now._replace(tokens=added(now.tokens, *used))
        else:
            now = now._replace(billed=added(now.billed, *used))
    return now._replace(partial=now.partial + 1) if is_partial else now


def models_on(event: ModeSwitch) -> dict[str, str]:
    """Return the models on the cards that an event brings, by agent."""
    return {agent: card.model for agent, card in event.cards.items() if card is not None and card.model}


def used_by(event: AssistantMessage | LlmError, models: Mapping[str, str]) -> tuple[str, Usage] | None:
    """Return the model and the usage of a call that counts here; `models` are those on the cards."""
    if event.usage is None or counts_elsewhere(event):
        return None
    return event.model or models.get(event.agent, ""), event.usage


def is_turn(message: UserMessage) -> bool:
    """Return whether a message of a person begins a turn: no edit of an earlier one, no command."""
    ours = message.meta.get("stenolog")
    is_note = isinstance(ours, dict) and isinstance(ours.get("asks_person"), bool)
    is_own = not (is_note or counts_elsewhere(message))
    return is_own and _is_spoken(message) and message.replaces is None


def _is_spoken(message: UserMessage) -> bool:
    return message.author_kind == "person" and message.control is None and message.in_context


def _more(counts: dict[str, int], name: str) -> dict[str, int]:
    return {**counts, name: counts.get(name, 0) + 1} if name else counts


def shortened(words: str) -> str:
    """Return the first words of a text on one line."""
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"


overview = Fold("overview", Overview(), _take, version=5, state=Overview)
"""The fold: `overview(entries)`."""
