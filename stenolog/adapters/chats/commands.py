"""What a person in a chat may tell beside messages: commands that begin with a slash.

What changes something is an entry in the log; what is said to it is for the chat alone.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from stenolog.adapters.conversation import Conversation
from stenolog.adapters.engine.editing import approval
from stenolog.adapters.engine.team import Team
from stenolog.adapters.engine.waiting import Waiting, waiting
from stenolog.adapters.stores import reading
from stenolog.domain.decide import decide
from stenolog.domain.entry import Draft, Entry
from stenolog.domain.errors import CallerError, StaleAppend, UnknownAgent
from stenolog.domain.events import Event, ModeSwitch, UserMessage
from stenolog.domain.lifecycle import BUSY
from stenolog.domain.state import Lane, State, decision
from stenolog.domain.values import Control
from stenolog.projections.requests import Wire

from .approving import Action, Unclear, chosen, questions, was_there
from .outline import outline

COMMAND = re.compile(r"/(\w{1,32})(?:@(\w+))?(?:\s+(.*))?", re.DOTALL)
DECIDED = "That was decided."

Command: TypeAlias = Callable[["Told"], Awaitable[str]]
COMMANDS: dict[str, Command] = {}
"""Those of every chat that is not given its own."""


class Told(NamedTuple):
    """A command as it was given: where, to which team, what stands behind its name, under which entry id, by
    whom; and all that there are. `about` is the code of the call that it answers, by a reply or a button;
    `shown` are the codes of the calls that its author was shown since that author last said something."""

    talk: Conversation
    team: Team
    rest: str = ""
    id: str = ""
    author: str = ""
    commands: Mapping[str, Command] = COMMANDS
    about: str = ""
    shown: Collection[str] = ()

    def at(self, worker: str) -> Told:
        """The same, told to a worker of the conversation; ids of several conversations may be there."""
        return self._replace(talk=self.talk.log[worker], id=self.id and f"{self.id}@{self.talk.name}")

    @property
    def is_done(self) -> bool:
        """Whether it was told before, and stands in the log."""
        return bool(self.id) and reading.find(self.talk.log.datastore, self.talk.stream, self.id) is not None

    def submit(self, command: Callable[[State], Event]) -> list[Entry]:
        """Record what it tells, under its id: once. Raises `IllegalCommand`."""
        while not self.is_done:
            state = self.talk.state()
            events = decide(state, command(state))
            drafts = [
                Draft(event, f"{self.id}:{nth}" if nth else self.id or None)
                for nth, event in enumerate(events)
            ]
            try:
                return self.talk.extend(drafts, expected=state.position)
            except StaleAppend:
                continue
        return []

    def control(self, control: Control, text: str = "", to: str = "") -> list[Entry]:
        """Tell the engine something."""
        said = UserMessage(text=text, author=self.author, to=[to] if to else [], control=control)
        return self.submit(lambda _: said)


def command(function: Command) -> Command:
    """A command by the function's name; its docstring is the help."""
    COMMANDS[function.__name__.strip("_")] = function
    return function


class Typed(NamedTuple):
    """A command as it was typed: its name, whom it is for (empty: everybody), and the rest."""

    name: str
    to: str
    rest: str


def typed(text: str) -> Typed | None:
    """The command that a text is; None for a message."""
    found = COMMAND.fullmatch(text.strip())
    return Typed(found[1].lower(), found[2] or "", (found[3] or "").strip()) if found else None


async def call(name: str, told: Told) -> str:
    """Do what was told; what to say to that, in Markdown."""
    known = told.commands.get(name)
    if known is None:
        return f"There is no command /{name}; /help lists them."
    try:
        return await known(told)
    except CallerError as error:
        return f"/{name}: {error}"


@command
async def start(told: Told) -> str:
    """who is here"""
    return f"Here are {', '.join(told.team.agents)}. Write, and they will hear it. /help lists the commands."


@command
async def _help(told: Told) -> str:
    """this list"""
    return "\n".join(f"/{name} {function.__doc__}" for name, function in told.commands.items())


@command
async def status(told: Told) -> str:
    """whose turn it is, and what each agent does"""
    state = await asyncio.to_thread(told.talk.state)
    names = dict.fromkeys([*told.team.agents, *state.lanes])
    lanes = (f"- {name}: {_doing(state, state.lane(name))}" for name in names)
    calls = questions(await told.team.waiting(told.talk))
    return "\n".join([f"{state.position} entries. {_turn(state)}", *lanes, *calls])


def _turn(state: State) -> str:
    if state.floor.holds:
        return f"The turn is with {', '.join(state.floor.holds)}."
    return f"Nobody has the turn{f': {state.floor.ended}' if state.floor.ended else ''}."


def _doing(state: State, lane: Lane) -> str:
    """What a lane does, in a few words."""
    match decision(state, lane).do:
        case "call_model" if lane.retry_at:
            return f"tries again at {lane.retry_at:%H:%M:%S} UTC"
        case "call_model":
            return "thinks"
        case "run_tools":
            return f"runs {', '.join(call.name for call in lane.calls)}"
        case "ask_approval":
            return f"waits for /approve of {', '.join(call.name for call in lane.calls if call.approval)}"
        case _:
            return f"has failed ({lane.category}), /continue goes on" if lane.status == "failed" else "rests"


@command
async def reset(told: Told) -> str:
    """a new start for the agents; the log keeps everything"""
    return await asyncio.to_thread(_reset, told)


def _reset(told: Told) -> str:
    state = told.talk.state()
    if not state.position:
        return "Nothing was said yet."
    if not told.is_done and any(lane.status in BUSY for lane in state.lanes.values()):
        told._replace(id="").control(Control(action="cancel"))
    told.submit(lambda now: ModeSwitch(context_from=now.position + 1))
    start = told.talk.settings().context_from
    return f"A new start: the agents no longer see entries 1 to {start - 1}. The log keeps them."


@command
async def cancel(told: Told) -> str:
    """[AGENT] stops who is at work"""
    return await asyncio.to_thread(_stop, told)


def _stop(told: Told) -> str:
    at_work = any(lane.status in BUSY for lane in told.talk.state().lanes.values())
    done = told.control(_to_lane("cancel", told.rest)) if at_work or told.rest else []
    return "Stopped." if done else "Nobody is at work."


@command
async def _continue(told: Told) -> str:
    """[AGENT] goes on after an error, or after /cancel"""
    return await asyncio.to_thread(_go_on, told)


def _go_on(told: Told) -> str:
    state = told.talk.state()
    failed = any(lane.status == "failed" for lane in state.lanes.values())
    if told.rest or failed:
        done = told.control(_to_lane("continue", told.rest))
    else:
        halted = _halted(state)
        done = told.control(_to_lane("continue", halted)) if halted else []
    return "It goes on." if done else "There is nothing to go on with."


def _halted(state: State) -> str:
    """The lane that was asked last, where it was stopped before it had answered; empty where it was not."""
    last = max(state.lanes.values(), key=lambda lane: lane.asked, default=None)
    return last.address if last and last.status == "idle" and last.asked > last.seen else ""


def _to_lane(action: Literal["cancel", "continue"], where: str) -> Control:
    agent, _, task = where.partition("/")
    return Control(action=action, agent=agent, task=task)


@command
async def approve(told: Told) -> str:
    """[CODE] [JSON] lets the call run that waits for you, with other arguments where some are given"""
    return await asyncio.to_thread(_judge, told, "approve")


@command
async def refuse(told: Told) -> str:
    """[CODE] [REASON] does not let it run"""
    return await asyncio.to_thread(_judge, told, "refuse")


def _judge(told: Told, action: Action) -> str:
    """Decide about the call that is meant; one message decides one, however often it is told."""
    if told.is_done or any(judged.is_done for judged in _at_workers(told)):
        return DECIDED
    calls = waiting(told.talk)
    meant = chosen(action, calls, told.rest, told.about, told.shown)
    if isinstance(meant, Unclear):
        return _unclear(told.talk, meant.code, calls)
    call, rest = meant
    judged = told if call.conversation == told.talk.name else told.at(call.conversation)
    if action == "approve":
        made = judged.control(approval(judged.talk, call.call, rest or None))
    else:
        made = judged.control(Control(action="refuse", call=call.call), rest, call.lane if rest else "")
    if not made:  # another person was first, perhaps with other arguments
        return DECIDED
    done = f"{'It runs' if action == 'approve' else 'It does not run'}: {call.name}."
    return "\n".join([done, *questions(other for other in calls if other != call)])


def _unclear(talk: Conversation, code: str, calls: Sequence[Waiting]) -> str:
    """Say that nothing was decided, and what waits."""
    if code and was_there(talk, code):
        said = DECIDED
    elif code:
        said = f"No call {code} waits for you: it was decided, or there was none."
    else:
        said = "Name the call by its code; nothing was decided." if calls else "No call waits for you."
    return "\n".join([said, *questions(calls)])


def _at_workers(told: Told) -> Iterator[Told]:
    """The same, told to each worker that anybody ever had: a decision stands where the call does."""
    return (told.at(name) for name in told.talk.log.names(archived=True, like="~"))


@command
async def context(told: Told) -> str:
    """[AGENT] what an agent is shown, and what not"""
    name = told.rest or next(iter(told.team.agents))
    agent, _, task = name.partition("/")
    if agent not in told.team.agents:
        raise UnknownAgent(f"expected one of {', '.join(told.team.agents)}; found {name!r}")
    llm = told.team.agents[agent].llm
    return await asyncio.to_thread(_outline, told.talk, agent, task, llm.wire if llm else None)


def _outline(talk: Conversation, agent: str, task: str, wire: str | Wire | None) -> str:
    if not talk.position:
        return "Nothing was said yet."
    return "\n".join(outline(talk.request(agent, wire=wire, task=task)))


def commands() -> Iterator[tuple[str, str]]:
    """Every command, with what it is for."""
    return ((name, function.__doc__ or "") for name, function in COMMANDS.items())
