"""Cuts of requests, and warnings to the operator of what a lane no longer sees."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.agent import Agent
from stenolog.adapters.engine.journal.live_state import LiveState
from stenolog.domain.lanes.state import State, in_words
from stenolog.domain.policy import SummaryAndRecent
from stenolog.projections.messages.rules import CUTS
from stenolog.projections.requests import Request
from stenolog.projections.views.timeline import cut_of

LOGGER = logging.getLogger("stenolog.engine")
UNSUMMARISED = "no summary replaces it: give the agent summary=AutoSummary(by=…), or call compact()"


def last_cut(request: Request, context_from: int) -> int:
    """Return the last position from `context_from` on that a window or a budget left out; 0: none."""
    cut = (run.last for run in request.omissions if run.rule in CUTS and run.last >= context_from)
    return max(cut, default=0)


def last_summarised(state: State, where: str) -> int:
    """Return the last position that a lane's summaries cover; 0: none."""
    return max((summary.last for summary in state.summaries if summary.is_for(where)), default=0)


class CutWarnings:
    """Warnings of one run: each cut and each new summary once.

    A place in `warned` had its warning in an earlier run, and gets an information.
    """

    def __init__(
        self, conversation: Conversation, agents: Mapping[str, Agent], warned: set[tuple[str, str]]
    ) -> None:
        self._name = conversation.name
        self._agents = agents
        self._warned = warned
        self._cuts = dict[str, int]()
        self._summaries = dict[str, int]()

    def warn(self, where: str, request: Request, live: LiveState) -> None:
        """Warn of a lane's new cuts and summaries; the timeline shows them to the user."""
        if request.cuts > self._cuts.get(where, 0):
            self._cuts[where] = request.cuts
            self._warn_of_cut(where, request, live)
        last = self._summaries.get(where, 0)
        for summary in live.state.summaries:
            if summary.is_for(where) and summary.position > last:
                self._summaries[where] = summary.position
                self._log(
                    f"{where} summarised",
                    f"{self._name} at {request.at}: {where} is not shown {in_words(summary.spans)}: "
                    f"the summary at {summary.position} is in its place",
                    # One that the lane has made for itself is no surprise.
                    is_expected=summary.author == where,
                )

    def _warn_of_cut(self, where: str, request: Request, live: LiveState) -> None:
        name, ended = where.partition("/")[0], last_summarised(live.state, where)
        # What is in a summary is shown in other words.
        if last_cut(request, live.settings.context_from_of(name)) <= ended:
            return
        cut = cut_of(request.receipt)
        is_window = isinstance(request.policy.chosen, SummaryAndRecent)
        if is_window and self._agents[name].summary is None and not ended:
            cut += f"; {UNSUMMARISED}"
        self._log(where, f"{self._name} at {request.at}: {where} is not shown {cut}")

    def _log(self, what: str, message: str, *, is_expected: bool = False) -> None:
        # A window that moves at each turn is worth one warning.
        place = self._name, what
        is_quiet = is_expected or place in self._warned
        if not is_expected:
            self._warned.add(place)
        LOGGER.log(logging.INFO if is_quiet else logging.WARNING, "%s", message)
