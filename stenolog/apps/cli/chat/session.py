"""A chat at a terminal or over a pipe: messages, agents' work, approvals and commands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import TypeAlias

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.conversation.queries.backwards import backwards
from stenolog.adapters.engine.inputs import Message
from stenolog.adapters.engine.team.team import Team
from stenolog.apps.chats.commands import pinned_words
from stenolog.apps.cli.app import Terminated
from stenolog.apps.cli.draw.entry_lines import entry_line
from stenolog.apps.cli.lines import Piece, counted
from stenolog.domain.base.near_names import closest
from stenolog.domain.errors import InvalidEventError, StenologError
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch
from stenolog.domain.lanes.lifecycle import BUSY
from stenolog.domain.lanes.state import address
from stenolog.domain.values import PositionRange

from .run import RunSession
from .status import at_work, awaiting, failed, is_words, last_exchange, stopped
from .terminal import message, minute


class Chat:
    """A conversation with a team, at a terminal or over a pipe."""

    def __init__(self, desk: RunSession, to: Collection[str] = ()) -> None:
        self.desk = desk
        self.paper, self.lines = desk.paper, desk.lines
        self.to = to

    @property
    def team(self) -> Team:
        return self.desk.team

    @property
    def conversation(self) -> Conversation:
        return self.desk.conversation

    def say(self, text: Message, to: Iterable[str] = ()) -> None:
        """Say something, and let the agents work."""
        self.desk.go(text, to)

    def submit(self, switch: ModeSwitch, words: str = "") -> None:
        """Change a setting, and show it, in these words if given."""
        self.conversation.submit(switch)
        self.desk.watching.catch_up(words)

    def note(self, words: str) -> None:
        """Show the person a note."""
        self.paper.line((words, "dim"))


PROMPT, MORE = "> ", "… "
ONCE_MORE = "Ctrl-C once more ends; so does Ctrl-D"


def loop(chat: Chat) -> None:
    """Chat until the person ends it. Raises KeyboardInterrupt after Ctrl-C."""
    _greet(chat)
    pressed = False
    while True:
        try:
            typed = message(chat.lines, PROMPT, MORE)
            pressed = False
            if typed is None:
                return
            _take(chat, typed)
        except QuitError:
            return
        except Terminated:
            raise
        except KeyboardInterrupt:
            if pressed or not chat.lines.asks or chat.desk.work.stopped:
                raise
            pressed = True
            print()
            chat.note(ONCE_MORE)


def _take(chat: Chat, typed: str) -> None:
    """Take a message or a command. At a terminal a mistake is shown, and the chat continues."""
    try:
        if typed.startswith("/") and not typed.startswith("//"):
            call(chat, typed[1:])
        elif not typed.strip():
            return
        elif chat.desk.approvals.answer(typed, chat.to):
            chat.desk.go()
        else:
            chat.say(typed.removeprefix("/") if typed.startswith("//") else typed, to=chat.to)
    except (StenologError, OSError) as error:
        if not chat.lines.asks:
            raise
        chat.paper.text(f"✗ {error}", "red")


def _greet(chat: Chat) -> None:
    if chat.paper.live:
        names = ", ".join(
            f"{name} ({agent.llm.name})" if agent.llm else name for name, agent in chat.team.agents.items()
        )
        head = chat.conversation.position
        last = next(backwards(chat.conversation, head), None)
        since = f"{counted(head, 'entry', 'entries')}, the last of {minute(last.time)}" if last else "new"
        chat.paper.text(f"{chat.conversation.name} · {since} · /help · {names}", "dim")
        for message in last_exchange(chat.conversation):
            chat.paper.text(message, "dim", indent="  ")
    for words in chat.desk.status():
        chat.paper.text(f"! {words}", "yellow")


Command: TypeAlias = Callable[[Chat, str], None]
COMMANDS: dict[str, Command] = {}
SHOWN = 20
"""So many entries `/log` shows by default."""


class QuitError(Exception):
    """The end of the chat."""


def command(function: Command) -> Command:
    """Return a command by the function's name; its docstring is the help."""
    COMMANDS[function.__name__.strip("_")] = function
    return function


def call(chat: Chat, typed: str) -> None:
    """Run the command that was typed. Raises `CallerError` for an unknown one."""
    name, _, rest = typed.partition(" ")
    if name not in COMMANDS:
        near = closest(name, COMMANDS, 0.6)  # of three letters, two that have changed places are enough
        hint = f"did you mean /{near}?" if near else "/help lists them"
        raise InvalidEventError(f"no command /{name}: {hint} (a message may begin with //)")
    COMMANDS[name](chat, rest.strip())


@command
def _help(chat: Chat, rest: str) -> None:
    """this list"""
    from stenolog.apps.cli.draw.layout import wrapped

    chat.paper.drawn(
        wrapped((f"  /{name:<9}", "bold"), (function.__doc__ or "", "dim"), hang=12)
        for name, function in COMMANDS.items()
    )
    chat.note('a message: a line; several with \\ at their ends, or between two of """')
    chat.note("Ctrl-C stops who is at work, and when nobody is, ends; Ctrl-D ends")


@command
def to(chat: Chat, rest: str) -> None:
    """NAME TEXT: say something to one agent"""
    name, _, text = rest.partition(" ")
    if not text.strip():
        raise InvalidEventError("expected /to NAME TEXT")
    if name.partition("/")[0] not in chat.team.agents:
        raise InvalidEventError(f"expected one of {', '.join(chat.team.agents)}; found {name!r}")
    chat.say(text.strip(), to=[name])


@command
def why(chat: Chat, rest: str) -> None:
    """[AGENT]: the last request, and the reason for every part of it"""
    from stenolog.apps.cli.draw.explain import reasons_drawn
    from stenolog.projections.analysis.explain import why as reasons

    lane, view = _last_request(chat, rest)
    agent, _, task = lane.partition("/")
    llm = chat.team.agents[agent].model_of(chat.conversation.settings(view).card_of(agent))
    request = chat.conversation.request(agent, view, llm.api if llm else None, task=task)
    log = list(chat.conversation.entries(at=request.at))
    chat.paper.drawn(reasons_drawn(request, reasons(request, log), whole=False))


def _last_request(chat: Chat, lane: str) -> tuple[str, int | None]:
    if lane and lane.partition("/")[0] not in chat.team.agents:
        raise InvalidEventError(f"expected one of {', '.join(chat.team.agents)}; found {lane!r}")
    for entry in backwards(chat.conversation, chat.conversation.position):
        match entry.event:
            case AssistantMessage(receipt=receipt) | LlmError(receipt=receipt) if receipt is not None:
                where = address(entry.event.agent, entry.event.task)
                if lane in ("", where):
                    return where, receipt.view
            case _:
                pass
    return lane or next(iter(chat.team.agents)), None


@command
def log(chat: Chat, rest: str) -> None:
    """[N]: the last entries of the log"""
    number = int(rest) if rest.isdecimal() and int(rest) else SHOWN
    last = list(islice(backwards(chat.conversation, chat.conversation.position), number))
    chat.paper.drawn(
        entry_line(entry, len(str(chat.conversation.position)), chat.conversation) for entry in reversed(last)
    )


@command
def agents(chat: Chat, rest: str) -> None:
    """the agents: model, state and tools of each"""
    chat.paper.drawn(_agents(chat))


def _agents(chat: Chat) -> Iterator[Piece]:
    from stenolog.apps.cli.draw.layout import table

    settings, state = chat.conversation.settings(), chat.conversation.state()
    rows = []
    for name in dict.fromkeys([*chat.team.agents, *settings.members]):
        card = settings.card_of(name)
        tools = ", ".join(tool.name for tool in card.tools or ())
        rows.append(((name, "cyan"), card.model or "-", state.lane(name).status, tools))
    yield table(("NAME", "~MODEL", "STATUS", "*TOOLS"), rows)


@command
def _cost(chat: Chat, rest: str) -> None:
    """tokens used, and their cost, by model"""
    from stenolog.apps.cli.draw.views import drawn
    from stenolog.projections.views.usage import usage

    rows = list(chat.conversation.fold(usage).by("model"))
    chat.paper.drawn(drawn(rows, "model", chat.team.options.prices, ""))


@command
def mode(chat: Chat, rest: str) -> None:
    """chat | agent | run | …: change the mode"""
    if not rest:
        raise InvalidEventError(
            f"expected a mode such as chat, agent or run; it is {chat.conversation.settings().mode}"
        )
    chat.submit(ModeSwitch(mode=rest))


@command
def _continue(chat: Chat, rest: str) -> None:
    """[AGENT]: go on after an error, an interruption, or Ctrl-C"""
    state, agents = chat.conversation.state(), chat.team.agents
    halted = [*failed(state, agents), *stopped(chat.conversation, agents)]
    if rest and (rest in halted or rest not in state.lanes):
        _proceed(chat, rest)
    elif failed(state, agents) and not rest:
        chat.desk.work.do(chat.team.resume(chat.conversation))
    elif not (at_work(state, agents) or any(awaiting(state, agents))):
        if rest or not halted:
            raise InvalidEventError("nothing to go on with: nobody has failed, or was stopped or interrupted")
        for where in halted:
            _proceed(chat, where)
    chat.desk.go()


def _proceed(chat: Chat, lane: str) -> None:
    chat.desk.work.do(chat.team.resume(chat.conversation, *lane.split("/", 1)))


@command
def cancel(chat: Chat, rest: str) -> None:
    """[AGENT]: give up what waits for an approval, or was interrupted"""
    if not rest and all(lane.status not in BUSY for lane in chat.conversation.state().lanes.values()):
        raise InvalidEventError("nothing to cancel: nobody is at work, or waits for an approval")
    chat.desk.work.do(chat.team.cancel(chat.conversation, *rest.split("/", 1) if rest else ()))
    chat.desk.watching.catch_up()


@command
def approve(chat: Chat, rest: str) -> None:
    """ask again about the calls and questions that wait for you"""
    if not chat.desk.approvals.judge():
        raise InvalidEventError("no call waits for you")
    chat.desk.go()


@command
def undo(chat: Chat, rest: str) -> None:
    """take your last message, and what followed, out of the context"""
    hidden = chat.conversation.settings().hides
    mine = (entry for entry in backwards(chat.conversation, chat.conversation.position) if is_words(entry))
    last = next(
        (entry.position for entry in mine if not any(entry.position in span for span in hidden)), None
    )
    if last is None:
        raise InvalidEventError("nothing was said yet")
    span = PositionRange(first=last, last=chat.conversation.position)
    taken = sum(not any(position in other for other in hidden) for position in range(last, span.last + 1))
    chat.submit(ModeSwitch(hides=[*hidden, span]), f"taken back: {counted(taken, 'entry', 'entries')}")


@command
def pin(chat: Chat, rest: str) -> None:
    """TEXT what all keep in mind: said now, and kept by each policy that pins a tag"""
    chat.say(pinned_words(chat.team, rest), to=chat.to)


@command
def reset(chat: Chat, rest: str) -> None:
    """begin anew: nothing before this is in context any more; the log keeps it"""
    switch = ModeSwitch(context_from=chat.conversation.position + 1)
    chat.submit(switch, "begun anew: nothing before this is in context")


@command
def quit(chat: Chat, rest: str) -> None:
    """end"""
    raise QuitError
