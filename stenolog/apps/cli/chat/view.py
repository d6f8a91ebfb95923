"""A run for a person: one agent's words at a time, tools, and errors with what follows."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.options import EntryAppended, RunEvent, StreamDelta
from stenolog.apps.cli.lines import describe, in_words, pass_token, passes
from stenolog.apps.views.figures import lasted
from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.lanes.state import State, address, find_call
from stenolog.domain.parts import ReasoningPart, RefusalPart, TextPart
from stenolog.domain.values import Control
from stenolog.projections.prices import Prices
from stenolog.projections.views.acts import act_in_words
from stenolog.projections.views.timeline import cut_words
from stenolog.projections.views.usage import Usage, is_new_session, usage

from . import terminal
from .status import Hints, at_work

STYLES = {"thought": "dim", "said": ""}


class RunPrinter:
    """Prints what a run reports.

    While an answer streams, other output is held back. `hints` say how to resume a failed agent.
    """

    def __init__(
        self,
        paper: terminal.TerminalWriter,
        conversation: Conversation,
        agents: Collection[str],
        hints: Hints,
    ) -> None:
        self.paper = paper
        self.hints = hints
        self.conversation = conversation
        self.agents = dict.fromkeys(agents)
        self.used = Usage(state=conversation.state())
        self._watch = terminal.Stopwatch()
        self._mine = ""
        self._speaker = ""
        self._floor = ""
        self._flow: terminal.StreamWrapper | None = None
        self._kind = ""
        self._said = ""
        self._written = 0
        self._held: list[RunEvent] = []
        self._calls: dict[int, str] = {}
        self._stopped: dict[int, list[str]] = {}
        self._told: set[str] = set()
        self._acts: set[tuple[str, int, str]] = set()
        self._instead = ""

    @property
    def state(self) -> State:
        """The conversation's state after the entries shown."""
        return self.used.state

    def begin(self, mine: str = "") -> None:
        """Begin a run; `mine` are entries written here, which are not repeated."""
        self.catch_up()
        self.used = Usage(state=self.state)
        self._mine, self._speaker, self._watch = mine, "", terminal.Stopwatch()
        self._told.clear()
        self._acts.clear()

    def catch_up(self, instead: str = "") -> None:
        """Show the entries not shown yet; `instead` are other words for a setting."""
        self._instead = instead
        for entry in self.conversation.entries(after=self.state.position):
            self.take(EntryAppended(entry))
        self._instead = ""
        self.paper.status("")

    def end(self, prices: Prices) -> None:
        """End the run and show what it took."""
        while self._floor or self._held:
            self._leave_floor()
        self.paper.status("")
        if (tally := self.used.total).answers:
            self.paper.line(
                (f"{terminal.used_words(tally, prices)} · {lasted(self._watch.seconds * 1000)}", "dim")
            )

    def tick(self) -> None:
        """Show that time has passed."""
        doing = at_work(self.state, self.agents)
        if doing and not self._floor:
            self.paper.status(f"… {doing} · {self._watch.seconds:.0f} s")

    def take(self, happened: RunEvent) -> None:
        """Write an event, or hold it back while another agent's words stream."""
        if isinstance(happened, EntryAppended):
            if happened.entry.position <= self.state.position:
                return  # it was shown already
            self._follow(happened.entry)
        if self._floor and _lane(happened) != self._floor:
            self._held.append(happened)
        else:
            self._show(happened)

    def _follow(self, entry: Entry) -> None:
        before = self.state
        if isinstance(entry.event, ToolResult) and (found := find_call(before, entry.event)):
            self._calls[entry.position] = terminal.call_words(terminal.call_of(self.conversation, found[1]))
        self.used = usage.evolve(self.used, entry)
        if _is_cancel(entry):
            rests = (where for where, lane in self.state.lanes.items() if lane.status == "idle")
            self._stopped[entry.position] = [where for where in rests if before.lane(where).status != "idle"]

    def _show(self, happened: RunEvent) -> None:
        if isinstance(happened, EntryAppended):
            self._record(happened.entry)
            self.tick()
        elif happened.kind == "act":
            self._act(happened)
        elif happened.kind != "tool_call":
            self._stream(happened)

    def _act(self, delta: StreamDelta) -> None:
        """Show a program's own act once, such as a call of its own tools."""
        line = act_in_words(delta.text)
        if line and (shown := (delta.lane, delta.part, line)) not in self._acts:
            self._acts.add(shown)
            self._floor = delta.lane
            self._introduce(delta.lane)
            self._end_flow()
            self.paper.line("  ", ("⚙ ", "dim"), (line, "blue"))

    def _stream(self, delta: StreamDelta) -> None:
        self._floor = delta.lane
        if delta.kind == "reasoning":
            self._write("thought", delta.text)
            return
        self._said += delta.text
        if not pass_token(self.state.turns).startswith(self._said.strip()):
            self._write_said()

    def _write_said(self) -> None:
        """Write the text held back as a possible pass."""
        words, self._written = self._said[self._written :], len(self._said)
        if words:
            self._write("said", words)

    def _write(self, kind: str, words: str) -> None:
        self._introduce(self._floor)
        if kind != self._kind:
            self._end_flow()
            self._kind = kind
        if self._flow is None:
            self._flow = self.paper.flow(STYLES[kind], aside=kind == "thought")
        self._flow.add(words)

    def _end_flow(self) -> None:
        if self._flow is not None:
            self._flow.end()
        self._flow, self._kind = None, ""

    def _leave_floor(self) -> None:
        """Stop holding back, and show what waited."""
        self._end_flow()
        self._floor, self._said, self._written = "", "", 0
        held, self._held = self._held, []
        for happened in held:
            if self._floor and _lane(happened) != self._floor:
                self._held.append(happened)
            else:
                self._show(happened)

    def _introduce(self, who: str) -> None:
        """Print the speaker's name if it changed; in a pipe only for several agents."""
        if who != self._speaker and (self.paper.live or len(self.agents) > 1):
            self.paper.line((who, "bold cyan"), aside=False)
        self._speaker = who

    def _record(self, entry: Entry) -> None:
        match entry.event:
            case AssistantMessage(purpose="answer") as answer:
                self._answer(answer)
            case ToolResult() as result:
                self._result(result, self._calls.pop(entry.position, result.name))
            case LlmError() as error:
                self._error(error, entry)
            case UserMessage(control=None) as message:
                self._message(message, entry)
            case UserMessage():  # of all others, what came of it tells
                self._cancelled(self._stopped.pop(entry.position, ()))
            case ModeSwitch() if self._instead:
                self.paper.text(self._instead, "dim")
            case _:
                who, what = describe(entry)
                self.paper.text(f"{who}: {what}", "dim")

    def _answer(self, answer: AssistantMessage) -> None:
        where = address(answer.agent, answer.task)
        words = "".join(part.text for part in answer.parts if isinstance(part, TextPart | RefusalPart))
        if not self._said and not self._kind:  # it came as a whole
            for part in answer.parts:
                if isinstance(part, ReasoningPart) and part.text:
                    self._stream(StreamDelta(where, 0, part.text, "reasoning"))
        passed = passes(answer, self.state.turns)
        if words != self._said and words.startswith(self._said):
            self._stream(StreamDelta(where, 0, words[len(self._said) :]))
        elif not words and answer.tool_calls:
            self._introduce(where)
        if passed:
            self._end_flow()
            self.paper.line((f"{where} passes", "dim"))
        else:
            self._write_said()
        if cut := cut_words(answer):
            self._end_flow()
            self.paper.text(cut, "yellow", indent="  ")
        self._leave_floor()

    def _result(self, result: ToolResult, call: str) -> None:
        mark, style = ("✗", "red") if result.is_error else ("✓", "green")
        took = "" if result.duration_ms is None else f" · {lasted(result.duration_ms)}"
        self.paper.line("  ", (f"{mark} ", style), (call, "blue"), (took, "dim"))
        for row in terminal.result_lines(result):
            if result.is_error:
                self.paper.text(row, "dim", indent="    ")
            else:
                self.paper.line("    ", (row, "dim"))

    def _error(self, error: LlmError, entry: Entry) -> None:
        where = address(error.agent, error.task)
        if not self._said and error.parts:
            self._stream(StreamDelta(where, 0, in_words(error.parts)))
        self._write_said()
        self._leave_floor()
        if error.category == "cancelled":
            self._cancelled([where])
            self._told.discard(where)
            return
        if is_new_session(error):
            self.paper.text(f"· {where} begins a new session: {error.message}", "dim")
            return
        self.paper.text(f"✗ {where}: {terminal.error_words(error)}", "yellow" if error.retry_at else "red")
        self.paper.text(terminal.what_next(error, entry.time) or self.hints.out_of(error), "dim", indent="  ")

    def _cancelled(self, lanes: Iterable[str]) -> None:
        """Show a cancelled agent once: the command and its result are two entries."""
        for where in lanes:
            if where not in self._told:
                self.paper.line((f"■ {where} was stopped", "yellow"))
            self._told.add(where)

    def _message(self, message: UserMessage, entry: Entry) -> None:
        mine, self._mine = self._mine, ""
        self._speaker = ""
        if message.text == mine and not message.author:
            return
        who, what = describe(entry)
        self.paper.line((who, "bold green"))
        self.paper.text(what)


def _is_cancel(entry: Entry) -> bool:
    match entry.event:
        case UserMessage(control=Control(action="cancel")):
            return True
        case _:
            return False


def _lane(happened: RunEvent) -> str:
    if isinstance(happened, StreamDelta):
        return happened.lane
    event = happened.entry.event
    return address(event.agent, event.task) if isinstance(event, AssistantMessage | LlmError) else ""
