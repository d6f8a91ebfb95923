"""A run as a person follows it: one voice at a time, tools as cards, errors with what happens next."""

from __future__ import annotations

from collections.abc import Collection

from stenolog.adapters.conversation import Conversation
from stenolog.adapters.engine.happenings import Delta, Happening, Recorded
from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError, ToolResult, UserMessage
from stenolog.domain.parts import Reasoning, Refusal, Text
from stenolog.domain.state import State, address, find_call
from stenolog.projections.prices import Prices
from stenolog.projections.usage import Usage, usage

from .chat_paper import Flow, Paper, Watch, lasted
from .chat_words import at_work, call_of, call_words, error_words, result_lines, used_words, what_next
from .words import describe, in_words

STYLES = {"thought": "dim", "said": ""}


class Stage:
    """Writes down what a run tells of.

    While an answer streams it has the floor; what else happens meanwhile is held back until it is whole.
    `again` says how one that has failed is made to go on.
    """

    def __init__(self, paper: Paper, talk: Conversation, agents: Collection[str], again: str) -> None:
        self.paper = paper
        self.again = again
        self.talk = talk
        self.agents = dict.fromkeys(agents)
        self.used = Usage(state=talk.state())
        self._watch = Watch()
        self._mine = ""
        self._speaker = ""
        self._floor = ""
        self._flow: Flow | None = None
        self._kind = ""
        self._said = ""
        self._held: list[Happening] = []
        self._calls: dict[int, str] = {}

    @property
    def state(self) -> State:
        """Where the conversation stands, as far as it was shown."""
        return self.used.state

    def begin(self, mine: str = "") -> None:
        """A run begins; `mine` is what was said here, and is not repeated."""
        self.catch_up()
        self.used = Usage(state=self.state)
        self._mine, self._speaker, self._watch = mine, "", Watch()

    def catch_up(self) -> None:
        """Show what stands in the log and was not shown yet."""
        for entry in self.talk.entries(after=self.state.position):
            self.take(Recorded(entry))
        self.paper.status("")

    def end(self, prices: Prices) -> None:
        """The run is over: say what it took."""
        while self._floor or self._held:
            self._leave_floor()
        self.paper.status("")
        if (tally := self.used.total).answers:
            self.paper.line((f"{used_words(tally, prices)} · {lasted(self._watch.seconds)}", "dim"))

    def tick(self) -> None:
        """A while has gone by."""
        doing = at_work(self.state, self.agents)
        if doing and not self._floor:
            self.paper.status(f"… {doing} · {self._watch.seconds:.0f} s")

    def take(self, happened: Happening) -> None:
        """Write down one thing, or hold it back while somebody else has the floor."""
        if isinstance(happened, Recorded):
            if happened.entry.position <= self.state.position:
                return  # it was shown already
            self._follow(happened.entry)
        if self._floor and _lane(happened) != self._floor:
            self._held.append(happened)
        else:
            self._show(happened)

    def _follow(self, entry: Entry) -> None:
        """Where the conversation stands now."""
        if isinstance(entry.event, ToolResult) and (found := find_call(self.state, entry.event)):
            self._calls[entry.position] = call_words(call_of(self.talk, found[1]))
        self.used = usage.evolve(self.used, entry)

    def _show(self, happened: Happening) -> None:
        if isinstance(happened, Recorded):
            self._record(happened.entry)
            self.tick()
        elif happened.kind != "tool_call":
            self._stream(happened)

    def _stream(self, delta: Delta) -> None:
        kind = "thought" if delta.kind == "reasoning" else "said"
        if not self._floor:
            self._floor = delta.lane
            self._introduce(delta.lane)
        if kind != self._kind:
            self._end_flow()
            self._kind = kind
        if self._flow is None:
            self._flow = self.paper.flow(STYLES[kind], aside=kind == "thought")
        self._flow.add(delta.text)
        self._said += delta.text if kind == "said" else ""

    def _end_flow(self) -> None:
        if self._flow is not None:
            self._flow.end()
        self._flow, self._kind = None, ""

    def _leave_floor(self) -> None:
        """The floor is free: those who waited are heard, one after the other."""
        self._end_flow()
        self._floor, self._said = "", ""
        held, self._held = self._held, []
        for happened in held:
            if self._floor and _lane(happened) != self._floor:
                self._held.append(happened)
            else:
                self._show(happened)

    def _introduce(self, who: str) -> None:
        """Who speaks now; in a pipe only where several may."""
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
            case UserMessage() as message if message.control is None:
                self._message(message, entry)
            case UserMessage():
                pass  # what came of it tells
            case _:
                who, what = describe(entry)
                self.paper.line((f"{who}: {what}", "dim"))

    def _answer(self, answer: AssistantMessage) -> None:
        where = address(answer.agent, answer.task)
        words = "".join(part.text for part in answer.parts if isinstance(part, Text | Refusal))
        if not self._said and not self._kind:  # it came as a whole
            for part in answer.parts:
                if isinstance(part, Reasoning) and part.text:
                    self._stream(Delta(where, 0, part.text, "reasoning"))
        if words != self._said and words.startswith(self._said):
            self._stream(Delta(where, 0, words[len(self._said) :]))
        elif not words and answer.tool_calls:
            self._introduce(where)
        self._leave_floor()

    def _result(self, result: ToolResult, call: str) -> None:
        mark, style = ("✗", "red") if result.is_error else ("✓", "green")
        took = "" if result.duration_ms is None else f" · {lasted(result.duration_ms / 1000)}"
        self.paper.line("  ", (f"{mark} ", style), (call, "blue"), (took, "dim"))
        for row in result_lines(result):
            self.paper.line("    ", (row, "dim"))

    def _error(self, error: LlmError, entry: Entry) -> None:
        where = address(error.agent, error.task)
        if not self._said and error.parts:
            self._stream(Delta(where, 0, in_words(error.parts)))
        self._leave_floor()
        if error.category == "cancelled":
            self.paper.line((f"■ {where} was stopped", "yellow"))
            return
        self.paper.text(f"✗ {where}: {error_words(error)}", "yellow" if error.retry_at else "red")
        self.paper.line((f"  {what_next(error, entry.at) or self.again}", "dim"))

    def _message(self, message: UserMessage, entry: Entry) -> None:
        mine, self._mine = self._mine, ""
        self._speaker = ""
        if message.text == mine and not message.author:
            return
        who, what = describe(entry)
        self.paper.line((who, "bold green"))
        self.paper.text(what)


def _lane(happened: Happening) -> str:
    """Whose words they are; nobody's for what else happens."""
    if isinstance(happened, Delta):
        return happened.lane
    event = happened.entry.event
    return address(event.agent, event.task) if isinstance(event, AssistantMessage | LlmError) else ""
