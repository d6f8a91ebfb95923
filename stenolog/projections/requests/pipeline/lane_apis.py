"""The API that each lane's requests are written for, by its last answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch
from stenolog.domain.lanes.state import address
from stenolog.domain.values import Origin
from stenolog.projections.fold import Fold
from stenolog.projections.formats import DEFAULT_API, FORMATS, api_by
from stenolog.projections.formats.base import Format

from .lane import LaneId

SIGNS = (ModeSwitch, AssistantMessage, LlmError)
"""The events that may tell a lane's API."""


def _spoken_by(source: Origin) -> str:
    from stenolog.projections.programs import PROGRAMS  # late: most programs do not need it

    program = PROGRAMS.get(source.system)
    return program.api() if program and program.api else ""


class _Told(NamedTuple):
    """Signs of a lane's API: an answer's API, and the last named model."""

    api: str = ""
    model: str = ""


class LaneApis(NamedTuple):
    """Signs of the API of each lane, by address; `cards` have provider and model."""

    lanes: dict[str, _Told] = {}  # noqa: RUF012 - never changed in place
    cards: dict[str, tuple[str, str]] = {}  # noqa: RUF012 - as above

    def of(self, lane: LaneId) -> str:
        """Return the API of a lane's answers.

        By the newest answer's receipt or program, unless the card has another provider since; else by the
        card's provider or the model's name; else the default.
        """
        provider, model = self.cards.get(lane.agent, ("", ""))
        settings = self.lanes.get(lane.address) or _Told(model=model)
        if settings.api:
            return known_api(settings.api)
        # Most formats need not be loaded to know that nothing names one.
        is_named = provider or settings.model
        return known_api(api_by(provider, settings.model)) if is_named else DEFAULT_API


def with_entry(now: LaneApis, entry: Entry) -> LaneApis:
    """Return the signs after one more entry."""
    event = entry.event
    if isinstance(event, ModeSwitch):
        for agent, card in event.cards.items():
            if card is not None and (card.provider or card.model):
                now = _with_card(now, agent, card.provider, card.model)
        return now
    if not isinstance(event, AssistantMessage | LlmError):
        return now
    where = address(event.agent, event.task) if event.task else event.agent
    told = now.lanes.get(where)
    api, model = told or _Told(model=now.cards.get(event.agent, ("", ""))[1])
    if event.receipt is not None:
        api = event.receipt.api.partition("@")[0] or DEFAULT_API
    elif event.source is not None:
        api = _spoken_by(event.source) or api
    settings = _Told(api, event.model or model)
    return now if told == settings else now._replace(lanes={**now.lanes, where: settings})


def _with_card(now: LaneApis, agent: str, provider: str, model: str) -> LaneApis:
    before = now.cards.get(agent, ("", ""))
    cards = {**now.cards, agent: (provider or before[0], model or before[1])}
    is_other = bool(before[0]) and provider not in ("", before[0])
    own = {
        where: settings for where, settings in now.lanes.items() if model and where.partition("/")[0] == agent
    }
    changed = {where: _Told("" if is_other else settings.api, model) for where, settings in own.items()}
    return LaneApis({**now.lanes, **changed}, cards)


# Of all kinds: where only some are read, a damaged entry stops the reading.
lane_apis = Fold("lane-apis", LaneApis(), with_entry, version=2, state=LaneApis)
"""The fold of the API by which each lane is asked, without reading the log back."""


def known_api(name: str) -> str:
    """Return a registered API's name, else the default one."""
    return name if name in FORMATS else DEFAULT_API


def asked_api(api: str | Format | None, entries: Iterable[Entry], lane: LaneId) -> str | Format:
    """Return the API that was asked for; None: that of the lane's answers among the entries."""
    return api or lane_apis(entries).of(lane)
