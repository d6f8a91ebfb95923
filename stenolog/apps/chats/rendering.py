"""Entries rendered for a chat in pieces, and the call that a person means."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.conversation.queries.backwards import backwards
from stenolog.adapters.engine.approvals import PendingApproval, question_code
from stenolog.domain.entry import Entry
from stenolog.domain.errors import CallerError
from stenolog.domain.events import AssistantMessage, LlmError, UserMessage
from stenolog.domain.lanes.state import address
from stenolog.domain.lanes.turn_taking import is_pass
from stenolog.domain.parts import RefusalPart
from stenolog.domain.settings import Settings
from stenolog.domain.values import CallRef, Control, ToolQuestion, TurnPolicy
from stenolog.projections.questions import choices_of
from stenolog.projections.questions import in_words as question_in_words
from stenolog.projections.terminal_text import CODE_LENGTH, LETTERS, call_code, shown_call
from stenolog.projections.views.timeline import cut_of

from .base import Question, Render

Weigh: TypeAlias = Callable[[str], int]
"""A function that returns a text's weight, the sum over its characters."""
LIMIT = 4096
"""The default limit of a piece, in UTF-16 code units."""
LEAST = 200
"""A piece has room for the fence of a block of code and for some of the code."""
FENCE = re.compile(r" {0,3}(`{3,20}(?=[^`]*$)|~{3,20})[ \t]*+(.{0,40}?)[ \t]*")


class Fence(NamedTuple):
    """A code block's opening: its mark, such as three backticks, and language."""

    mark: str
    language: str = ""

    @property
    def line(self) -> str:
        """The line that begins a block."""
        return f"{self.mark}{self.language}"

    def ends(self, other: Fence) -> bool:
        """Return whether this fence ends a block that the other began."""
        return not self.language and self.mark.startswith(other.mark)


def fence_of(line: str) -> Fence | None:
    """Return a line's fence; None if it has none."""
    found = FENCE.fullmatch(line)
    return Fence(*found.groups()) if found else None


def in_block(text: str) -> str:
    """Return a text as a code block, with a fence that it does not contain."""
    marks = (mark * number for number in range(3, 21) for mark in "`~")
    mark = next((mark for mark in marks if mark not in text), "```")
    return f"{mark}\n{text}\n{mark}"


def utf16_length(text: str) -> int:
    """Return a text's length in UTF-16 code units, as many chats count."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def split(text: str, limit: int = LIMIT, weigh: Weigh = utf16_length) -> list[str]:
    """Return the text in pieces that weigh at most `limit`, cut between lines, words, or anywhere.

    A code block is closed and reopened with its language in the next piece. Blank lines at the ends of pieces
    are dropped. Raises `CallerError` for a limit under 200.
    """
    if limit < LEAST:
        raise CallerError(f"limit: expected at least {LEAST}, found {limit}")
    cutter = _Cutter(limit, weigh)
    for line in text.split("\n"):
        cutter.take(line)
    return cutter.end()


class _Cutter:
    """The pieces so far, and the lines of the current one."""

    def __init__(self, limit: int, weigh: Weigh) -> None:
        self.limit = limit + 1  # every line is weighed with its line break, which the last one has not
        self.weigh = weigh
        self.pieces: list[str] = []
        self.fence: Fence | None = None
        self._lines: list[str] = []
        self._weight = 0
        self._is_bare = False
        """True if a code block has just begun and has no code yet."""

    def take(self, line: str) -> None:
        found = fence_of(line)
        if self.fence is None:
            self._begin(found) if found else self._text(line)
        elif found and found.ends(self.fence):
            self._add(self.fence.mark)  # there is always room for it
            self.fence = None
        else:
            self._text(line)

    def end(self) -> list[str]:
        """Return all pieces. Text after an unclosed last fence is not code."""
        if self.fence and self._is_bare and self.fence.language:
            self._lines[-1:] = [self.fence.mark, self.fence.language]
            self._is_bare = False
        self._flush()
        return self.pieces

    def _begin(self, fence: Fence) -> None:
        if self._line_limit() < self._weighed(fence.line) + self._weighed(fence.mark) + 2:
            self._flush()
        self._open(fence)

    def _text(self, line: str) -> None:
        if self._weighed(line) > self._line_limit() and not self._is_fresh():
            self._flush()
        while self._weighed(line) > self._line_limit():
            begin, line = self._cut(line)
            self._add(begin)
            self._flush()
        self._add(line)

    def _weighed(self, line: str) -> int:
        return self.weigh(line) + 1  # with the line break

    def _line_limit(self) -> int:
        return self.limit - self._weight - (self._weighed(self.fence.mark) if self.fence else 0)

    def _is_fresh(self) -> bool:
        return len(self._lines) <= self._is_bare

    def _cut(self, line: str) -> tuple[str, str]:
        """Return as much of a line as fits, cut after a blank if possible, and the rest."""
        room, at = self._line_limit() - 1, 0
        for at, char in enumerate(line):  # noqa: B007 - where the room ends
            room -= self.weigh(char)
            if room < 0:
                break
        blank = max(line.rfind(" ", 1, at), line.rfind("\t", 1, at)) + 1
        at = blank if line[:blank].strip() else at
        return line[:at], line[at:]

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self._weight += self._weighed(line)
        self._is_bare = False

    def _open(self, fence: Fence) -> None:
        self.fence = fence
        self._add(fence.line)
        self._is_bare = True

    def _flush(self) -> None:
        """End the piece; within a code block the next begins with its fence."""
        lines, fence = self._lines, self.fence
        if fence:
            lines = lines[:-1] if self._is_bare else [*lines, fence.mark]
        self.pieces.extend(_trimmed(lines))
        self._lines, self._weight = [], 0
        if fence:
            self._open(fence)


def _trimmed(lines: list[str]) -> Iterator[str]:
    with_words = [nth for nth, line in enumerate(lines) if line.strip()]
    if with_words:
        yield "\n".join(lines[with_words[0] : with_words[-1] + 1]).rstrip()


NO_NAMES: Mapping[str, str] = MappingProxyType({})
WHY = {
    "timeout": "the model took too long",
    "network": "the model could not be reached",
    "rate_limited": "too much was asked of the model",
    "overloaded": "the model is overloaded",
    "context_length": "the conversation has grown too long, /reset begins anew",
    "refused": "the model declined",
    "process_exited": "it was interrupted",
    "unauthorized": "the model does not know this program",
    "budget": "a limit was reached",
}


def speaker_of(entry: Entry) -> str:
    """Return an entry's lane; empty for an entry of no agent."""
    match entry.event:
        case AssistantMessage() | LlmError() as event:
            return address(event.agent, event.task)
        case UserMessage(control=Control(action="ask"), author=lane):
            return lane
        case _:
            return ""


def display_name(lane: str, names: Mapping[str, str]) -> str:
    """Return a lane's display name: its own, else its agent's, else the lane."""
    return names.get(lane) or names.get(lane.partition("/")[0]) or lane


def render_entry(
    names: Mapping[str, str] = NO_NAMES,
    *,
    heading: str = "",
    limit: int = LIMIT,
    weigh: Weigh = utf16_length,
    cuts: bool = False,
) -> Render:
    """Return a renderer in pieces that weigh at most `limit`. `names` are display names by agent or lane.

    `heading`, such as `"{name}: "`, precedes an answer. Each call to approve gets pieces of its own. `cuts`:
    an answer ends with the positions that its request cut off.
    """

    def render(entry: Entry, settings: Settings) -> list[str | Question]:
        speaker = display_name(speaker_of(entry), names)
        words = in_words(entry, settings, speaker)
        if words and cuts and (missing := _missing(entry)):
            words += f"\n\n(answered without {missing})"
        if words and isinstance(entry.event, AssistantMessage):
            words = heading.replace("{name}", speaker) + words
        pieces: list[str | Question] = [*split(words, limit, weigh)]
        for question in _questions(entry, settings, speaker):
            *first, last = split(question.text, limit, weigh)
            pieces += (question._replace(text=text, is_last=False) for text in first)
            pieces.append(question._replace(text=last))
        return pieces

    return render


def in_words(entry: Entry, settings: Settings, speaker: str) -> str:
    """Return an entry's Markdown for people; empty if they see nothing.

    Answers, unless they only pass the turn; errors that are not retried.
    """
    match entry.event:
        case AssistantMessage(purpose="answer", in_context=True) as answer:
            return "" if _passes(answer, settings.turns) else "\n\n".join(_answer_texts(answer))
        case LlmError(retry_at=None, in_context=True) as error if error.category != "cancelled":
            why = WHY.get(error.category, "something went wrong")
            return f"({speaker} could not answer: {why}. /continue goes on.)"
        case _:
            return ""


def _passes(answer: AssistantMessage, turns: TurnPolicy | None) -> bool:
    token = turns.options.get("pass_token") if turns is not None else None
    return isinstance(token, str) and bool(token) and is_pass(answer, token)


def _answer_texts(answer: AssistantMessage) -> Iterator[str]:
    yield from filter(
        str.strip, (answer.text, *(part.text for part in answer.parts if isinstance(part, RefusalPart)))
    )


def _missing(entry: Entry) -> str:
    receipt = entry.event.receipt if isinstance(entry.event, AssistantMessage) else None
    return cut_of(receipt) if receipt else ""


def _questions(entry: Entry, settings: Settings, speaker: str) -> Iterator[Question]:
    match entry.event:
        case AssistantMessage(purpose="answer") as answer:
            tools = settings.card_of(answer.agent).tools or ()
            asks = {tool.name for tool in tools if tool.approval}
            for nth, made in enumerate(answer.tool_calls):
                if made.name in asks:
                    code = call_code(CallRef(entry=entry.id, index=nth), made.name, made.arguments)
                    yield Question(question(speaker, code, made.name, made.arguments), code)
        case UserMessage(control=Control(call=CallRef() as call, question=ToolQuestion() as asked)):
            code = question_code(call, entry.position)
            yield Question(tool_question(speaker, code, asked), code, choices=choices_of(asked))
        case _:
            pass


def tool_question(speaker: str, code: str, asked: ToolQuestion) -> str:
    """Return the Markdown question of a tool, with its choices."""
    how = f"Write the answer, or /answer {code} ANSWER; /refuse {code} gives none."
    return f"{speaker} asks: {question_in_words(asked)}\n\n{how}"


def question(speaker: str, code: str, name: str, arguments: str) -> str:
    """Return the Markdown question whether a call may run, with the whole call."""
    shown = in_block(shown_call(name, arguments))
    return f"{speaker} asks to run\n{shown}\n/approve {code} lets it, /refuse {code} does not."


Action: TypeAlias = Literal["approve", "refuse", "answer"]
REMEMBERED, PAGE = 10_000, 256
CALL_CODE = re.compile(f"[{LETTERS}]{{{CODE_LENGTH}}}")


class Chosen(NamedTuple):
    """The call that is meant, with a reason or other arguments."""

    call: PendingApproval
    rest: str


class Unclear(NamedTuple):
    """No call is clearly meant. `code` is the one named, or empty."""

    code: str = ""


def chosen(
    action: Action, calls: Sequence[PendingApproval], rest: str, about: str, shown: Collection[str]
) -> Chosen | Unclear:
    """Return the waiting call that a person means.

    Its code is the first word of `rest`, or `about`, by reply or button. Without a code it is the only
    waiting one, if it is also the only one in `shown`: codes shown since the person's last message.
    """
    # A refusal ends a question too.
    calls = [call for call in calls if action == "refuse" or (call.question is None) == (action == "approve")]
    first, behind = [*rest.split(maxsplit=1), "", ""][:2]
    word = first.casefold() if CALL_CODE.fullmatch(first.casefold()) else ""
    known = any(call.code == word for call in calls)
    if about and known and about != word:
        return Unclear(word)  # the reply names one call, and the words another
    if word and (known or action == "approve"):
        about, rest = word, behind
    if about:
        named = [call for call in calls if call.code == about]
        return Chosen(named[0], rest) if len(named) == 1 else Unclear(about)
    if action == "approve" and rest and not rest.startswith("{"):
        return Unclear()  # "yes, but …" is no approval
    if len(calls) == 1 and calls[0].code in shown and (action == "answer" or len({*shown}) == 1):
        return Chosen(calls[0], rest)
    return Unclear(word)


def questions(calls: Iterable[PendingApproval]) -> Iterator[str]:
    """Yield the question of each call that waits, in Markdown."""
    for call in calls:
        if call.question is not None:
            yield tool_question(call.lane, call.code, call.question)
        else:
            yield question(call.lane, call.code, call.name, call.arguments)


def was_there(conversation: Conversation, code: str) -> bool:
    """Return whether the code names one of the last calls or questions, decided or not."""
    last = islice(backwards(conversation, conversation.position), REMEMBERED)
    return any(code in _codes_of(entry) for entry in last)


def _codes_of(entry: Entry) -> Iterator[str]:
    match entry.event:
        case AssistantMessage() as answer:
            for nth, call in enumerate(answer.tool_calls):
                yield call_code(CallRef(entry=entry.id, index=nth), call.name, call.arguments)
        case UserMessage(control=Control(action="ask", call=CallRef() as call)):
            yield question_code(call, entry.position)
        case _:
            pass


def last_word(conversation: Conversation, author: str) -> int:
    """Return the position of an author's last message or decision; 0 if none."""
    for entry in backwards(conversation, conversation.position):
        match entry.event:
            case UserMessage(author=by, author_kind="person") if by == author:
                return entry.position
            case _:
                pass
    return 0
