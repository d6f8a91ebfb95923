"""Lanes: whose request it is, who wrote an entry, which entries a policy pins, and facts kept across cuts."""

from __future__ import annotations

from typing import NamedTuple

from stenolog.domain import events
from stenolog.domain.entry import Entry
from stenolog.domain.lanes.state import LaneState as Standing
from stenolog.domain.lanes.triggers import ends_sessions, goes_on, takes_turn
from stenolog.domain.lanes.turn_taking import is_pass
from stenolog.domain.policy import Pins
from stenolog.domain.settings import Settings
from stenolog.projections.views.tool_pairs import Call

SPEAKERS = (events.AssistantMessage, events.LlmError, Call)
# They stay in context, since the seals of the calls that they cut off rest on them (see decision 6).
INTERRUPTIONS = ("cancelled", "process_exited")
"""Categories of errors that stop a lane."""


class LaneId(NamedTuple):
    """The lane that a view belongs to: an agent, and its task."""

    agent: str
    task: str = ""

    @property
    def address(self) -> str:
        """`agent`, or `agent/task`."""
        return f"{self.agent}/{self.task}" if self.task else self.agent

    def owns(self, event: events.Event | Call) -> bool:
        """Return whether the event, or the call, is shown as the lane's own."""
        return isinstance(event, SPEAKERS) and event.agent == self.agent and event.task == self.task

    @property
    def shared(self) -> bool:
        """True if all agents' messages are shown as the lane's own."""
        return False

    def wrote(self, event: events.Event | Call) -> bool:
        """Return whether the event, or the call, is of this very lane."""
        return isinstance(event, SPEAKERS) and event.agent == self.agent and event.task == self.task


class SharedLane(LaneId):
    """A lane that is shown all agents' messages as its own, but not those of other tasks."""

    __slots__ = ()

    def owns(self, event: events.Event | Call) -> bool:
        """Return whether the event, or the call, is of the lane or of any without a task."""
        # The words of a worker come between its caller's call and the result, and would part them.
        return isinstance(event, SPEAKERS) and (not event.task or self.wrote(event))

    @property
    def shared(self) -> bool:
        return True


def author_of(event: events.Event) -> str:
    """Return the author's name, else kind: `person`, `system`, `schedule`."""
    match event:
        case events.UserMessage(author=author, author_kind=kind):
            return author or kind
        case events.AssistantMessage(agent=agent) | events.LlmError(agent=agent):
            return agent
        case _:
            return ""


def pinned(entry: Entry, pins: Pins | None) -> bool:
    """Return whether an entry is pinned, by position, author or tag."""
    event = entry.event
    if pins is None or isinstance(event, events.Unknown):
        return False
    author = author_of(event)
    return (
        entry.position in pins.positions
        or (bool(author) and author in pins.authors)
        or not set(pins.tags).isdisjoint(event.tags)
    )


class LaneMemory(NamedTuple):
    """The facts remembered about a lane.

    `answered` is the position of its last answer, `turns` the number of its turns since the last reset,
    without passes (an answer that calls tools ends none); `counted` says whether the last answer is one.
    `handoff` is the text of the last hand-off to it. `running` is the message that its current run answers,
    `ended` that of the run which the last answer ended. `died` is the position of the last entry that reports
    its backend as dead or changed. `began` is where its first answer since the last reset was asked for (0:
    none). `set_at` has the position of the mode switch that last set each setting for it.
    """

    answered: int = 0
    turns: int = 0
    model: str = ""
    session: str = ""
    running: int = 0
    died: int = 0
    began: int = 0
    handoff: str = ""
    counted: bool = False
    ended: int = 0
    # Never changed in place: `remember` makes a new one.
    set_at: dict[str, int] = {}  # noqa: RUF012


class Now(NamedTuple):
    """The lane before and after an entry, and the settings after it."""

    lane: LaneId
    before: Standing
    after: Standing
    settings: Settings
    pass_token: str
    version: int


def remember(own: LaneMemory, entry: Entry, now: Now) -> LaneMemory:
    """Return the lane's memory after the entry."""
    event = entry.event
    is_settled = "named" in own.set_at and not isinstance(event, events.ModeSwitch)
    if not is_settled and (names := _set_by(event, now.lane)):
        own = own._replace(set_at=own.set_at | dict.fromkeys(names, entry.position))
    match event:
        case events.ModeSwitch() as switch:
            own = _switched(own, entry.position, switch, now.lane)
        case events.AssistantMessage() as message if now.lane.owns(message):
            own = _after_answer(own, entry.position, message, now)
        case events.LlmError() as error if now.lane.owns(error):
            own = _failed(own, entry.position, error)
        case _:
            pass
    # After a reset the lane begins anew, so its next reminder is due after as many answers as the first one.
    if (own.began or own.turns) and own.answered < now.settings.context_from_of(now.lane.agent):
        own = own._replace(began=0, turns=0, counted=False)
    running = _running(own, entry, now)
    if running == own.running:
        return own
    return own._replace(running=running, ended=0 if running else own.running)


def _switched(own: LaneMemory, position: int, switch: events.ModeSwitch, lane: LaneId) -> LaneMemory:
    if ends_sessions(switch, lane.agent):
        own = own._replace(session="", died=position)
    if switch.handoff is events.UNCHANGED:
        return own
    is_its_own = not switch.agents or lane.agent in switch.agents
    return own._replace(handoff=(switch.handoff or "") if is_its_own else "")


def _after_answer(own: LaneMemory, position: int, message: events.AssistantMessage, now: Now) -> LaneMemory:
    changed = own.session and message.session not in ("", own.session)
    # Had the change been noticed before the call, the new session would have been sent everything.
    unnoticed = changed and own.died < own.answered
    # An imported answer: no backend here has heard what it answers.
    elsewhere = message.source is not None and not message.session
    answered, turns, began, counted = own.answered, own.turns, own.began, own.counted
    if takes_turn(now.before, message):
        answered = position
        if message.replaces is None:
            passed = bool(now.pass_token) and is_pass(message, now.pass_token)
            # An answer that calls tools is followed by another one in the same turn.
            is_turn = not passed and not message.tool_calls
            # One response is one turn, however many messages it came in.
            if goes_on(now.before, message):
                is_turn = is_turn and counted
                turns -= counted
            turns, counted = turns + is_turn, is_turn
            began = began or (message.receipt.view if message.receipt else position)
    model, session = message.model or own.model, message.session or own.session
    died = position if unnoticed or elsewhere else own.died
    return own._replace(
        answered=answered,
        turns=turns,
        began=began,
        model=model,
        session=session,
        died=died,
        counted=counted,
        ended=own.ended if own.ended and goes_on(now.before, message) else 0,
    )


def _failed(own: LaneMemory, position: int, error: events.LlmError) -> LaneMemory:
    if error.category == "process_exited" or events.was_stopped(error):
        return own._replace(died=position)
    if error.session and error.session != own.session:
        return own._replace(session=error.session, died=position)
    return own


def _running(own: LaneMemory, entry: Entry, now: Now) -> int:
    """Return the message that the current run answers: the first since the lane was idle."""
    if now.after.status == "idle":
        return 0
    event = entry.event
    begun = isinstance(event, events.UserMessage) and now.after.asked == entry.position
    # A message that comes while the lane works belongs to the run that is under way.
    if begun and (not own.running or now.before.status in ("idle", "failed", "closed")):
        return entry.position
    # A further part of the response that seemed to end the run: an import in pieces is one of the whole.
    goes = isinstance(event, events.AssistantMessage) and now.version > 5 and now.lane.owns(event)
    return own.running or (own.ended if goes else 0)


def _set_by(event: events.Event, lane: LaneId) -> list[str]:
    if isinstance(event, events.ModeSwitch):
        return _switched_for(lane.agent, event)
    return ["named"] if _is_named(lane.agent, event) else []


def _switched_for(agent: str, switch: events.ModeSwitch) -> list[str]:
    is_set = {
        "card": agent in switch.cards,
        "mode": switch.mode is not events.UNCHANGED and (not switch.agents or agent in switch.agents),
        "run": switch.active_run is not events.UNCHANGED,
        "handoff": switch.handoff is not events.UNCHANGED,
    }
    return [name for name, is_its_own in is_set.items() if is_its_own]


def _is_named(agent: str, event: events.Event) -> bool:
    match event:
        case events.UserMessage(to=to):
            return any(where.partition("/")[0] == agent for where in to)
        case events.AssistantMessage(agent=name) | events.LlmError(agent=name):
            return name == agent
        case _:
            return False
