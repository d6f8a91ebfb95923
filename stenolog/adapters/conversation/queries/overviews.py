"""Rows of a list of conversations, from folds with stored checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from stenolog.adapters.store.reading.handle import StreamHandle
from stenolog.domain.entry import EPOCH, Entry
from stenolog.domain.erasure import erasure_of
from stenolog.domain.lanes.state import State
from stenolog.domain.settings import Settings
from stenolog.projections.html_table import table
from stenolog.projections.views.overview import Overview, overview

from .folds import SETTINGS, STATE, fold_at, folds_at, persistent

OVERVIEW = persistent(overview)
BEGINNING = 50
"""The entries among which the first words of a person are looked for first."""


class ListedConversation(NamedTuple):
    """A conversation in a list; `last` is its last entry without records of erasures, or None."""

    name: str
    settings: Settings
    state: State
    overview: Overview
    last: Entry | None
    digest: str = ""

    @property
    def title(self) -> str:
        """The title, else a person's first words."""
        return self.settings.title or self.overview.words

    @property
    def folder(self) -> str:
        return self.overview.folder

    @property
    def branch(self) -> str:
        return self.overview.branch

    @property
    def errors(self) -> int:
        return self.overview.errors

    @property
    def agents(self) -> list[str]:
        """Every agent, the one that answered most first."""
        agents = {lane.agent for lane in self.state.lanes.values()} | set(self.settings.members)
        answers = self.overview.answers
        return sorted(agents | set(answers), key=lambda agent: (-answers.get(agent, 0), agent))

    @property
    def models(self) -> list[str]:
        models = self.overview.models
        if models:
            return sorted(models, key=lambda model: (-models[model], model))
        return sorted({card.model for card in self.settings.cards.values() if card.model})

    @property
    def is_dated(self) -> bool:
        """True if the last entry has a time: imports without one have 1970."""
        return self.last is not None and self.last.time != EPOCH


def _last(conversation: StreamHandle, position: int) -> Entry | None:
    for at in range(position, 0, -1):
        (entry,) = conversation.entries(after=at - 1, at=at)
        if erasure_of(entry.event) is None:
            return entry
    return None


def title_of(conversation: StreamHandle) -> str:
    """Return the title, else a person's first words."""
    if title := fold_at(conversation, SETTINGS).title:
        return title
    # They stand at the beginning, as a rule, and the rest need not be read for them.
    begun = overview.steps(conversation.entries(at=BEGINNING))
    words = next((seen.words for seen in begun if seen.words), "")
    return words or fold_at(conversation, OVERVIEW).words


def log_table(path: str, names: Sequence[str], named: Callable[[str], StreamHandle]) -> str:
    """Return the conversations of these names as a table for notebooks."""

    def cells(name: str) -> tuple[object, ...]:
        last = named(name).entry(named(name).position)
        return name, last.position, f"{last.time:%Y-%m-%d %H:%M:%S}", title_of(named(name))

    caption = f"{path}, {len(names):,} conversations"
    columns = ("conversation", "entries", "last", "title")
    return table(caption, columns, len(names), lambda first, end: map(cells, names[first:end]))


def folder_of(conversation: StreamHandle) -> str:
    """Return the working folder that was noted first; empty if none was."""
    return fold_at(conversation, OVERVIEW).folder


def listed(conversation: StreamHandle) -> ListedConversation:
    """Return what a list shows of a conversation."""
    settings, state, seen = folds_at(conversation, (SETTINGS, STATE, OVERVIEW))
    head = next(iter(conversation.entries(after=max(0, state.position - 1))), None)
    last = _last(conversation, state.position)
    return ListedConversation(conversation.name, settings, state, seen, last, head.digest if head else "")
