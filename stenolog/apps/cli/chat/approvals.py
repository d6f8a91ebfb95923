"""Decisions and answers of a person at a terminal about calls that wait for one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple, Protocol

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.approvals import Approver, answer_in_words, approval, refusal
from stenolog.adapters.engine.team.team import Team
from stenolog.adapters.tools.calls import question_at
from stenolog.apps.cli.app import Terminated
from stenolog.domain.errors import IllegalCommandError, InvalidEventError
from stenolog.domain.events import UserMessage
from stenolog.domain.lanes.effects import ref
from stenolog.domain.lanes.state import LaneState, OpenCall
from stenolog.domain.parts import ToolCall
from stenolog.domain.values import ToolQuestion
from stenolog.projections.questions import in_words

from .status import awaiting
from .terminal import Lines, TerminalWriter, call_of, pages_of, whole_call

QUESTION = "  run it? y/n (n REASON tells why, e: other arguments, a: always this tool) "
MORE = "  Enter shows the next page ({left:,} characters are left), n refuses "
ARGUMENTS = "  arguments, as a JSON object: "


class Verdict(NamedTuple):
    """A decision on a call: `reason` explains a refusal; a person was shown the call if `is_seen`."""

    approved: bool
    reason: str = ""
    arguments: str = ""
    is_seen: bool = True


ANSWER = "  answer (/refuse for none): "


class Work(Protocol):
    """A run in the background, as far as needed here."""

    conversation: Conversation
    team: Team


class Approvals:
    """Asks a person about waiting calls; `later` says how to return to open ones.

    `yes` approves all. If nobody can be asked they are refused, or with `leave` left open. `by` is whoever is
    asked.
    """

    def __init__(
        self,
        work: Work,
        paper: TerminalWriter,
        lines: Lines,
        later: str,
        *,
        yes: bool,
        leave: bool,
        by: Approver | None = None,
    ) -> None:
        self.by = by
        self.work = work
        self.paper = paper
        self.lines = lines
        self.later = later
        self.yes = yes
        self.leave = leave
        self._always: set[tuple[str, str]] = set()

    def judge(self) -> bool:
        """Ask about each waiting call; return whether one was decided."""
        judged = False
        for lane, call in list(awaiting(self.work.conversation.state(), self.work.team.agents)):
            said = self._answer_to(lane, call) if call.question else self._judgement(lane, call)
            if said is None:
                continue
            try:
                self.work.conversation.submit(said)
                judged = True
            except IllegalCommandError as error:  # somebody else was first
                self.paper.text(str(error), "dim")
        return judged

    def answer(self, text: str, to: Collection[str]) -> bool:
        """Answer the first open question, of the agents `to` if some are named, with a person's text.

        Returns whether there was one. Raises `InvalidEventError` if it does not fit.
        """
        for _, call in awaiting(self.work.conversation.state(), to or self.work.team.agents):
            if call.question:
                self.work.conversation.submit(answer_in_words(self.work.conversation, call, text, self.by))
                return True
        return False

    def _judgement(self, lane: LaneState, call: OpenCall) -> UserMessage | None:
        if (verdict := self._verdict(lane, call)) is None:
            return None
        by = self.by if verdict.is_seen else None
        return _message(self.work.conversation, lane, call, verdict, by)

    def _answer_to(self, lane: LaneState, call: OpenCall) -> UserMessage | None:
        """Return a person's answer to a question, or its refusal; None leaves it open."""
        conversation = self.work.conversation
        question = question_at(conversation, call.question) or ToolQuestion(text="")
        self.paper.text(f"? {lane.address}: {call.name} asks: {in_words(question)}", "bold")
        if not self.lines.asks:
            does = "it waits for your answer" if self.leave else "refused, since nobody is here to answer"
            self.paper.text(f"  {does}", "yellow")
            return None if self.leave else UserMessage(control=refusal(conversation, ref(call)))
        try:
            while (said := self.lines.reply(ANSWER)) is not None:
                word, _, reason = said.strip().partition(" ")
                if word == "/refuse":
                    return _message(conversation, lane, call, Verdict(False, reason.strip()), self.by)
                try:
                    if word:
                        return answer_in_words(conversation, call, said, self.by)
                except InvalidEventError as error:
                    self.paper.text(f"✗ {error}", "red")
        except Terminated:
            raise
        except KeyboardInterrupt:
            print()
        self.paper.line((f"  left open: {self.later}", "dim"))
        return None

    def _verdict(self, lane: LaneState, call: OpenCall) -> Verdict | None:
        """Return a person's decision on a call shown whole; None leaves it open."""
        tool_call = call_of(self.work.conversation, call)
        words = f"{lane.address}: {whole_call(tool_call)}"
        if self.yes or (lane.agent, call.name) in self._always:
            self.paper.text(f"approved: {words}", "dim")
            return Verdict(True, is_seen=False)
        if not self.lines.asks:
            does = "it waits for" if self.leave else "refused without"
            self.paper.text(f"? {words}: {does} your approval (--yes approves)", "yellow")
            return None if self.leave else Verdict(False, is_seen=False)
        verdict = None
        try:
            verdict = self._ask(lane, call, tool_call)
        except Terminated:
            raise
        except KeyboardInterrupt:
            print()
        if verdict is None:
            self.paper.line((f"  left open: {self.later}", "dim"))
        return verdict

    def _ask(self, lane: LaneState, call: OpenCall, tool_call: ToolCall) -> Verdict | None:
        """Return a person's decision; Ctrl-D leaves the call open."""
        arguments, verdict = "", self._read(f"? {lane.address}: ", tool_call)
        while verdict is None and (answer := self.lines.reply(QUESTION)) is not None:
            word, _, reason = answer.strip().partition(" ")
            match word.lower(), reason.strip():
                case "a" | "always", "":
                    self._always.add((lane.agent, call.name))
                    return Verdict(True, arguments=arguments)
                case "y" | "yes", "":
                    return Verdict(True, arguments=arguments)
                case "n" | "no", why:
                    return Verdict(False, why)
                case "e" | "edit", "":
                    arguments = self._edited(call) or arguments
                    verdict = self._read(
                        "? with: ", replace(tool_call, arguments=arguments or tool_call.arguments)
                    )
                case _:  # "yes, but …" is no approval
                    pass
        return verdict

    def _read(self, begin: str, tool_call: ToolCall) -> Verdict | None:
        """Show a call page by page; return the refusal if it comes before the end."""
        first, *others = pages_of(tool_call)
        self.paper.text(f"{begin}{first}", "bold")
        for nth, page in enumerate(others):
            answer = self.lines.reply(MORE.format(left=sum(map(len, others[nth:]))))
            if answer is None:
                raise KeyboardInterrupt
            word, _, reason = answer.strip().partition(" ")
            if word.lower() in ("n", "no"):
                return Verdict(False, reason.strip())
            self.paper.text(page, "bold")
        return None

    def _edited(self, call: OpenCall) -> str:
        """Return a person's arguments; empty if none fit."""
        given = self.lines.reply(ARGUMENTS) or ""
        try:
            return approval(self.work.conversation, ref(call), given).arguments if given.strip() else ""
        except InvalidEventError as error:
            self.paper.text(f"✗ {error}", "red")
            return ""


def _message(
    conversation: Conversation, lane: LaneState, call: OpenCall, verdict: Verdict, by: Approver | None
) -> UserMessage:
    if verdict.approved:
        return UserMessage(control=approval(conversation, ref(call), verdict.arguments or None, by))
    control = refusal(conversation, ref(call), by)
    if not verdict.reason:
        return UserMessage(control=control)
    return UserMessage(text=verdict.reason, to=[lane.address], control=control)
