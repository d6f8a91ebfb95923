"""Answers to an agent about its own history: what it was sent, why, and what a compaction took away.

Each is a text for a model. It has words only of entries that `visible_to` lets the agent see now: nothing
that was erased, hidden or edited away, and nothing private to another agent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from stenolog.adapters.conversation.queries.outputs import READ
from stenolog.adapters.conversation.queries.overviews import folder_of
from stenolog.adapters.conversation.queries.read_output import run_read_output
from stenolog.adapters.conversation.queries.visibility import visible_to
from stenolog.adapters.tools.recall import NOTHING, RecallScope
from stenolog.apps.views.asked_request import AskedRequest
from stenolog.apps.views.compactions import chosen_compaction, compacted_request, compactions_of
from stenolog.apps.views.figures import counted
from stenolog.apps.views.lanes import lane, means, only_agent, own_api
from stenolog.domain.entry import Entry
from stenolog.domain.erasure import ERASED, WITHHELD, erasure_of
from stenolog.domain.errors import ConversationNotFoundError, InvalidEventError, PositionNotFoundError
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.lanes.state import runs_in_words
from stenolog.projections.analysis.explain import Reason, explain, why
from stenolog.projections.messages.rules import RULES
from stenolog.projections.requests import Request
from stenolog.projections.requests.pipeline.tool_groups import PREVIEW_RULE
from stenolog.projections.requests.pipeline.truncation import LONGEST_READ
from stenolog.projections.terminal_text import one_line
from stenolog.projections.views.lines import call_in_words, describe

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation, Log

FIRST = 160
"""Characters of a text in a list."""
MOST = 50
"""Lines of a list, and passages of a search."""
LATEST = 1_000
"""Among so many of the newest conversations an agent's own is looked for."""
MOST_TAKEN = 200
"""Entries that a compaction took, in its list: `search` finds the others."""
UNSEEN = "(you may not see this any more)"


def running_in(log: Log, folder: Path, since: datetime) -> Conversation:
    """Return the one conversation that a program works on in a folder.

    Of several in the folder, the one that was written to `since`. Raises `ConversationNotFoundError` unless
    it is one: another session's words are not this agent's to read.
    """
    talks = map(log.__getitem__, log.names(order="latest", limit=LATEST))
    found = [talk for talk in talks if _works_in(talk, folder)]
    if len(found) > 1:
        found = [talk for talk in found if talk.entry(talk.position).time >= since] or found
    if len(found) != 1:
        named = f": {', '.join(talk.name for talk in found[:3])}" if found else ""
        raise ConversationNotFoundError(
            f"expected one conversation of {folder}, found {len(found)}{named}; "
            "name it: stenolog serve --mcp --conversation NAME"
        )
    return found[0]


def _works_in(talk: Conversation, folder: Path) -> bool:
    noted = folder_of(talk)
    return bool(noted) and os.path.realpath(noted) == str(folder) and not talk.settings().is_fork


class OwnHistory:
    """The history of one agent, read anew for each question; `agent` empty: the only or main one."""

    def __init__(self, find: Callable[[], Conversation], agent: str = "") -> None:
        self._find = find
        self._agent = agent

    def search(self, words: str, limit: int = 5) -> str:
        """Find what was said earlier, also what is in your context no more, by words that occur in it."""
        now = self._now()
        found = RecallScope().found(now.conversation, now.lane.agent, words, _within(limit, MOST))
        return "\n\n".join(map(str, found)) or NOTHING

    def read(self, entry: int, offset: int = 0, limit: int = READ) -> str:
        """Read an entry's text, piece by piece: it is in your context again."""
        text = self._now().text(entry)
        piece = text[max(offset, 0) :][: _within(limit, LONGEST_READ)]
        end = max(offset, 0) + len(piece)
        more = f"go on with offset={end}" if end < len(text) else "this is the end"
        return f"{piece}\n[characters {max(offset, 0):,} to {end:,} of {len(text):,}; {more}]"

    def output(self, arguments: str) -> str:
        """Read a tool's output as the tool `read_output` does."""
        now = self._now()
        return run_read_output(now.conversation, arguments, now.address)

    def request(self, entry: int | None = None, message: int | None = None) -> str:
        """Say what you were sent for an answer of yours, or at an entry; by default for the last answer.

        A list of messages, or one of them in full (0: system prompt and tools).
        """
        now = self._now()
        at = now.asked_at(entry)
        request, answered = now.request(at), now.is_answered(at)
        reasons = [
            each for each in why(request, now.entries[:at]) if not (answered and each.rule == PREVIEW_RULE)
        ]
        chosen = [each for each in reasons if message in (None, each.message + 1)]
        if not chosen:
            last = max((each.message for each in reasons), default=-1) + 1
            raise InvalidEventError(f"expected a message from 0 to {last}, found {message}")
        if message is not None:
            return "\n\n".join(f"{now.head(each)}\n{now.text_in(each)}"[:LONGEST_READ] for each in chosen)
        listed = (f"{now.head(each)}: {_short(now.text_in(each))}" for each in chosen)
        gone = (
            f"left out, entries {runs_in_words([(each.first, each.last)])} ({each.rule})"
            for each in request.omissions
        )
        head = f"your request at entry {at}{now.unlike(request, answered)}"
        return "\n".join((head, *_last(gone), *_last(listed)))

    def why(self, entry: int) -> str:
        """Say in which of your requests an entry was, in what form, and why it is there or not."""
        now = self._now()
        now.check(entry)
        conversation = now.conversation
        found = explain(
            now.entries, entry, api=own_api(conversation, now.address), lane=now.lane, **means(conversation)
        )
        stretches = [stretch for each in found.lanes for stretch in each.stretches]
        lines = []
        for stretch in stretches:
            form = stretch.form
            place = f" as message {form.message + 1}" if form.message >= 0 else ""
            sent = f", sent for {counted(len(stretch.answered), 'answer')}" if stretch.answered else ""
            rules = "; ".join(f"{rule}: {RULES.get(rule, '')}" for rule in (*form.rules, *form.without))
            span = runs_in_words([(stretch.first, stretch.last)])
            lines.append(f"your requests at entries {span}: {form.fate}{place}{sent} ({rules})")
        return "\n".join(_last(lines)) or "in no request of yours yet"

    def compaction(self, entry: int | None = None) -> str:
        """Say what a compaction took out of your context: the last one, or the last before an entry.

        Each entry that is gone or only in the summary, with its number for `read`.
        """
        now = self._now()
        found = compactions_of(now.conversation, now.address)
        position = chosen_compaction(found, len(now.entries) if entry is None else entry)
        if not position:
            return "nothing was ever taken out of your requests"
        chosen = compacted_request(now.conversation, now.address, position, restore=None, api=None)
        gone = [run for run in chosen.runs if run.fate in ("only in the summary", "gone")]
        taken = [
            f"{each.position}: {run.fate}: {_line(each)}"
            for run in gone
            for each in now.entries[run.first - 1 : run.last]
            if now.may_see(each)
        ]
        places = ", ".join(str(one.position) for one in found)
        head = (
            f"{chosen.compaction.kind} at entry {position} (compactions at {places}): "
            f"{chosen.tokens_before:,} → {chosen.tokens_after:,} tokens; taken out, and readable:"
        )
        return "\n".join((head, *_last(taken, MOST_TAKEN)))

    def _now(self) -> _Now:
        conversation = self._find()
        entries = [*conversation.entries()]
        return _Now(conversation, self._agent or only_agent(conversation, len(entries)), entries)


class _Now:
    """The log of an agent's conversation at one moment."""

    def __init__(self, conversation: Conversation, address: str, entries: list[Entry]) -> None:
        self.conversation, self.address, self.entries = conversation, address, entries
        self.lane = lane(address)

    @cached_property
    def may_see(self) -> Callable[[Entry], bool]:
        return visible_to(self.conversation, *self.lane)

    def check(self, position: int) -> Entry:
        """Return an entry that the agent may see. Raises `PositionNotFoundError`."""
        found = self.entries[position - 1] if 1 <= position <= len(self.entries) else None
        if found is None or not self.may_see(found):
            raise PositionNotFoundError(f"expected an entry that you may see, found {position}")
        return found

    def text(self, position: int) -> str:
        event = self.check(position).event
        blob = getattr(event, "blob", "")
        if blob:
            return self.conversation.log.blobs[blob].decode(errors="replace")
        calls = map(call_in_words, event.tool_calls) if isinstance(event, AssistantMessage) else ()
        return "\n".join(filter(None, (getattr(event, "text", ""), *calls)))

    def asked_at(self, position: int | None) -> int:
        """Return the position of the request that an answer had; of no answer, the position itself."""
        if position is None:
            own = (each.position for each in reversed(self.entries) if self._answers(each))
            position = next(own, len(self.entries))
        elif not 1 <= position <= len(self.entries):
            raise PositionNotFoundError(f"expected an entry up to {len(self.entries)}, found {position}")
        entry = self.entries[position - 1]
        return _view(entry) if self._answers(entry) else position

    def is_answered(self, at: int) -> bool:
        """Return whether an answer had the request at this position."""
        return any(self._answers(entry) and _view(entry) == at for entry in self.entries[at:])

    def _answers(self, entry: Entry) -> bool:
        event = entry.event
        return isinstance(event, AssistantMessage | LlmError) and self.lane.owns(event)

    def request(self, at: int) -> Request:
        return AskedRequest(self.conversation, self.address, at, None, None, ()).request()

    def unlike(self, request: Request, answered: bool) -> str:
        """Say in what a request is not the one that was sent; nothing if it is."""
        if not answered:
            return "" if request.sendable else f", would not be sent: {request.reason}"
        # Words that were erased before the request were not sent.
        later = [found for entry in self.entries[request.at :] if (found := erasure_of(entry.event))]
        erased = {at for each in later for at in each.positions}
        gone = [
            at
            for run in request.omissions
            for at in range(run.first, run.last + 1)
            if run.rule == WITHHELD or (run.rule == ERASED and at in erased)
        ]
        spans = runs_in_words((at, at) for at in gone)
        return f", not as sent: the words of entries {spans} are gone" if gone else ""

    def head(self, reason: Reason) -> str:
        place = f"message {reason.message + 1}" if reason.message >= 0 else "before the messages"
        of = f", entries {runs_in_words((at, at) for at in reason.positions)}" if reason.positions else ""
        return (
            f"{place} {reason.role}{of}, {reason.tokens_out:,} tokens, {reason.disposition} ({reason.rule})"
        )

    def text_in(self, reason: Reason) -> str:
        seen = all(self.may_see(self.entries[at - 1]) for at in reason.positions)
        return reason.text if seen else UNSEEN


def _view(answer: Entry) -> int:
    receipt = getattr(answer.event, "receipt", None)
    return receipt.view if receipt is not None else answer.position - 1


def _within(asked: int, most: int) -> int:
    return min(max(asked, 1), most)


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= FIRST else f"{line[:FIRST]}…"


def _line(entry: Entry) -> str:
    author, what = describe(entry)
    return f"{author}: {_short(what)}"


def _last(lines: Iterable[str], most: int = MOST) -> Iterator[str]:
    """Yield the last lines, after how many there are before them."""
    listed = [*lines]
    if len(listed) > most:
        yield f"… {len(listed) - most} more before these"
    yield from listed[-most:]
