"""Slash commands of a chat, and mentions that address a message.

A command that changes something appends an entry. Its reply goes only to the chat.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.agent import Agent
from stenolog.adapters.engine.approvals import PendingApproval, approval, waiting
from stenolog.adapters.engine.approvals import answer as answered
from stenolog.adapters.engine.mentions import agents_by_name as agents_by_name
from stenolog.adapters.engine.mentions import mentioned_agents
from stenolog.adapters.engine.team.team import Team
from stenolog.domain.entry import Entry, NewEntry
from stenolog.domain.errors import AgentNotFoundError, CallerError, VersionConflictError
from stenolog.domain.events import Event, ModeSwitch, UserMessage
from stenolog.domain.lanes.decide import decide
from stenolog.domain.lanes.lifecycle import BUSY
from stenolog.domain.lanes.state import LaneState, State, address, decision, runs_in_words
from stenolog.domain.policy import policy
from stenolog.domain.values import Control
from stenolog.projections.answers import answer_from
from stenolog.projections.requests import Omission, Request, RequestPart
from stenolog.projections.requests.sendable import no_agent

from .rendering import Action, Unclear, chosen, questions, was_there

COMMAND = re.compile(r"/(\w{1,32})(?:@(\w+))?(?:\s+(.*))?", re.DOTALL)
DECIDED = "That was decided."

Command: TypeAlias = Callable[["CommandContext"], Awaitable[str]]
COMMANDS: dict[str, Command] = {}
"""Those of every chat that is not given its own."""


class CommandContext(NamedTuple):
    """A command as given: conversation, team, author, arguments.

    `about` is the code of the call that it answers, by reply or button. `shown` are codes of calls that its
    author saw since that author's last message.
    """

    conversation: Conversation
    team: Team
    rest: str = ""
    id: str = ""
    author: str = ""
    commands: Mapping[str, Command] = COMMANDS
    about: str = ""
    shown: Collection[str] = ()

    def at(self, worker: str) -> CommandContext:
        """Return the command for a worker of the conversation; its ids may be of several."""
        return self._replace(
            conversation=self.conversation.log[worker], id=self.id and f"{self.id}@{self.conversation.name}"
        )

    @property
    def is_done(self) -> bool:
        """True if the log has this command already."""
        return bool(self.id) and self.conversation.entry_by_id(self.id) is not None

    def submit(self, command: Callable[[State], Event]) -> list[Entry]:
        """Record the command's events under its id, once. Raises `IllegalCommandError`."""
        while not self.is_done:
            state = self.conversation.state()
            events = decide(state, command(state))
            new = [
                NewEntry(event, f"{self.id}:{nth}" if nth else self.id or None)
                for nth, event in enumerate(events)
            ]
            try:
                return self.conversation.extend(new, expected=state.position)
            except VersionConflictError:
                continue
        return []

    def answer(self, call: PendingApproval, text: str) -> list[Entry]:
        """Answer a call's question with a person's text. Raises `InvalidEventError` if it does not fit."""
        assert call.question is not None, "it asks"
        value = answer_from(call.question, text)
        said = answered(self.conversation, call.call, value, None, call.asked)
        return self.submit(lambda _: replace(said, author=self.author))

    def control(self, control: Control, text: str = "", to: str = "") -> list[Entry]:
        """Append a command for the engine."""
        message = UserMessage(text=text, author=self.author, to=[to] if to else [], control=control)
        return self.submit(lambda _: message)


def command(function: Command) -> Command:
    """Return a command named by the function; its docstring is the help."""
    COMMANDS[function.__name__.strip("_")] = function
    return function


class TypedCommand(NamedTuple):
    """A command as typed: name, addressee (empty: everybody), rest."""

    name: str
    to: str
    rest: str


def typed_command(text: str) -> TypedCommand | None:
    """Return the command that a text is; None for a message."""
    found = COMMAND.fullmatch(text.strip())
    return TypedCommand(found[1].lower(), found[2] or "", (found[3] or "").strip()) if found else None


async def call(name: str, given: CommandContext) -> str:
    """Run a command and return the answer, in Markdown."""
    known = given.commands.get(name)
    if known is None:
        return f"There is no command /{name}; /help lists them."
    try:
        return await known(given)
    except CallerError as error:
        return f"/{name}: {error}"


@command
async def start(given: CommandContext) -> str:
    """the agents that are here"""
    return f"Here are {', '.join(given.team.agents)}. Write, and they will hear it. /help lists the commands."


@command
async def _help(given: CommandContext) -> str:
    """this list"""
    return "\n".join(f"/{name} {function.__doc__}" for name, function in given.commands.items())


@command
async def status(given: CommandContext) -> str:
    """the turn, and the state of each agent"""
    state = await asyncio.to_thread(given.conversation.state)
    names = dict.fromkeys([*given.team.agents, *state.lanes])
    lanes = (f"- {name}: {_doing(state, state.lane(name))}" for name in names)
    calls = questions(await given.team.pending_approvals(given.conversation))
    return "\n".join([f"{state.position} entries. {_turn(state)}", *lanes, *calls])


def _turn(state: State) -> str:
    if state.turn_state.holders:
        return f"The turn is with {', '.join(state.turn_state.holders)}."
    return f"Nobody has the turn{f': {state.turn_state.end_reason}' if state.turn_state.end_reason else ''}."


def _doing(state: State, lane: LaneState) -> str:
    match decision(state, lane).do:
        case "call_model" if lane.retry_at and lane.category != "cancelled":
            return f"tries again at {lane.retry_at:%H:%M:%S} UTC"
        case "call_model":
            return "thinks"
        case "run_tools":
            return f"runs {', '.join(call.name for call in lane.calls)}"
        case "ask_approval":
            approvals = ", ".join(call.name for call in lane.calls if call.approval)
            asks = ", ".join(f"{call.name} asks" for call in lane.calls if call.question)
            return "; ".join(filter(None, (approvals and f"waits for /approve of {approvals}", asks)))
        case _:
            return f"has failed ({lane.category}), /continue goes on" if lane.status == "failed" else "rests"


@command
async def reset(given: CommandContext) -> str:
    """a new start for the agents; the log keeps everything"""
    return await asyncio.to_thread(_reset, given)


def _reset(given: CommandContext) -> str:
    state = given.conversation.state()
    if not state.position:
        return "Nothing was said yet."
    if not given.is_done and any(lane.status in BUSY for lane in state.lanes.values()):
        given._replace(id="").control(Control(action="cancel"))
    given.submit(lambda now: ModeSwitch(context_from=now.position + 1))
    start = given.conversation.settings().context_from
    return f"A new start: the agents no longer see entries 1 to {start - 1}. The log keeps them."


@command
async def pin(given: CommandContext) -> str:
    """TEXT what all keep in mind: said now, and kept by each policy that pins a tag"""
    words = pinned_words(given.team, given.rest, given.author)
    await given.team.send(given.conversation, words, id=given.id)
    return "It is pinned."


def pinned_words(team: Team, text: str, author: str = "") -> UserMessage:
    """Return the message with all tags that the team's policies pin. Raises `CallerError` without any."""
    policies = (policy(agent.policy) for agent in team.agents.values())
    tags = dict.fromkeys(tag for each in policies if each.pins for tag in each.pins.tags)
    if not tags:
        raise CallerError('no agent has a policy that pins a tag: pins = { tags = ["intent"] }')
    if not text:
        raise CallerError("expected a text")
    return UserMessage(text=text, author=author, tags=[*tags])


@command
async def cancel(given: CommandContext) -> str:
    """[AGENT] stops who is at work"""
    return await asyncio.to_thread(_stop, given)


def _stop(given: CommandContext) -> str:
    at_work = any(lane.status in BUSY for lane in given.conversation.state().lanes.values())
    done = given.control(_to_lane("cancel", given.rest)) if at_work or given.rest else []
    return "Stopped." if done else "Nobody is at work."


@command
async def _continue(given: CommandContext) -> str:
    """[AGENT] goes on after an error, or after /cancel"""
    return await asyncio.to_thread(_go_on, given)


def _go_on(given: CommandContext) -> str:
    state = given.conversation.state()
    failed = any(lane.status == "failed" for lane in state.lanes.values())
    if given.rest or failed:
        done = given.control(_to_lane("continue", given.rest))
    else:
        halted = _halted(state)
        done = given.control(_to_lane("continue", halted)) if halted else []
    return "It goes on." if done else "There is nothing to go on with."


def _halted(state: State) -> str:
    last = max(state.lanes.values(), key=lambda lane: lane.asked, default=None)
    return last.address if last and last.status == "idle" and last.asked > last.seen else ""


def _to_lane(action: Literal["cancel", "continue"], where: str) -> Control:
    agent, _, task = where.partition("/")
    return Control(action=action, agent=agent, task=task)


@command
async def approve(given: CommandContext) -> str:
    """[CODE] [JSON] lets the call run that waits for you, with other arguments where some are given"""
    return await asyncio.to_thread(_judge, given, "approve")


@command
async def refuse(given: CommandContext) -> str:
    """[CODE] [REASON] does not let it run"""
    return await asyncio.to_thread(_judge, given, "refuse")


@command
async def answer(given: CommandContext) -> str:
    """[CODE] ANSWER answers the question of a tool"""
    return await asyncio.to_thread(_judge, given, "answer")


def _judge(given: CommandContext, action: Action) -> str:
    """Decide about the named call; a message decides once, even if delivered again."""
    if given.is_done or any(judged.is_done for judged in _at_workers(given)):
        return DECIDED
    calls = waiting(given.conversation)
    # An answer may be any word, and so may look like a code: only that of an earlier question is one.
    first = given.rest.partition(" ")[0].casefold()
    if (
        action == "answer"
        and all(call.code != first for call in calls)
        and was_there(given.conversation, first)
    ):
        return DECIDED
    meant = chosen(action, calls, given.rest, given.about, given.shown)
    if isinstance(meant, Unclear):
        return _unclear(given.conversation, meant.code, calls)
    call, rest = meant
    judged = given if call.conversation == given.conversation.name else given.at(call.conversation)
    if action == "approve":
        verdict = judged.control(approval(judged.conversation, call.call, rest or None))
    elif action == "answer":
        verdict = judged.answer(call, rest)
    else:
        verdict = judged.control(Control(action="refuse", call=call.call), rest, call.lane if rest else "")
    if not verdict:  # another person was first, perhaps with other arguments
        return DECIDED
    ended = "It has no answer" if call.question else "It does not run"
    done = f"{ended if action == 'refuse' else 'It runs'}: {call.name}."
    return "\n".join([done, *questions(other for other in calls if other != call)])


def _unclear(conversation: Conversation, code: str, calls: Sequence[PendingApproval]) -> str:
    if code and was_there(conversation, code):
        answer = DECIDED
    elif code:
        answer = f"No call {code} waits for you: it was decided, or there was none."
    else:
        answer = "Name the call by its code; nothing was decided." if calls else "No call waits for you."
    return "\n".join([answer, *questions(calls)])


def _at_workers(given: CommandContext) -> Iterator[CommandContext]:
    """Yield the command for each worker of any agent.

    A decision is recorded in the call's conversation.
    """
    return (given.at(name) for name in given.conversation.log.names(archived=True, contains="~"))


@command
async def context(given: CommandContext) -> str:
    """[AGENT] what an agent is shown, and what not"""
    name = given.rest or next(iter(given.team.agents))
    agent, _, task = name.partition("/")
    if agent not in given.team.agents:
        raise AgentNotFoundError(no_agent(agent, [*given.team.agents]))
    return await asyncio.to_thread(_outline, given.conversation, given.team.agents[agent], task)


def _outline(conversation: Conversation, agent: Agent, task: str) -> str:
    if not conversation.position:
        return "Nothing was said yet."
    llm = agent.model_of(conversation.settings().card_of(agent.name))
    return "\n".join(outline(conversation.request(agent.name, api=llm.api if llm else None, task=task)))


def commands() -> Iterator[tuple[str, str]]:
    """Yield every command, with its help."""
    return ((name, function.__doc__ or "") for name, function in COMMANDS.items())


SHOWN = 20
"""So many of the last parts are listed."""


def outline(request: Request) -> Iterator[str]:
    """Yield a request's size, its session's content, its last parts with rules, the omissions."""
    state = "is ready" if request.sendable else f"would not be sent: {request.reason}"
    lane, size = address(request.agent, request.task), request.size
    yield f"What {lane} sees at {request.at} ({_messages(size.messages)}, {size.tokens} tokens) {state}."
    if known := request.held_runs:
        spans, tokens = (
            runs_in_words((run.first, run.last) for run in known),
            sum(run.tokens for run in known),
        )
        yield f"- in its session, so not sent again: {spans}, {tokens} tokens"
    first = max(0, len(request.parts) - SHOWN)
    if first:
        yield f"… {first} parts before"
    yield from (f"- {_part(part)}" for part in request.parts[first:])
    yield from (f"- left out: {_left_out(run)}" for run in request.omissions if run not in known)


def _part(part: RequestPart) -> str:
    return f"{_positions(part.positions)} {part.role}, {part.rule}, {part.tokens_out} tokens"


def _left_out(run: Omission) -> str:
    return f"{runs_in_words([(run.first, run.last)])}, {run.rule}, {run.tokens} tokens"


def _messages(number: int) -> str:
    return f"{number} message{'s' if number != 1 else ''}"


def _positions(positions: Sequence[int]) -> str:
    return ", ".join(map(str, positions)) or "from the card:"


def mentioned(text: str, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return the agents that a text mentions by `@name`, in order.

    `names` maps each agent's names, in lower case, to the agent.
    """
    return mentioned_agents(text, names)
