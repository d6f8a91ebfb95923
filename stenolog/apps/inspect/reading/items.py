"""Items of a conversation that is read: entries with their results, sub-agents, time and cost."""

from __future__ import annotations

import base64
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from stenolog.adapters.providers.prices import listed, usd
from stenolog.apps.inspect.entries.rows import Talk, entries_at, time_of
from stenolog.apps.views.caches import read_by, receipt_of, why_words
from stenolog.apps.views.figures import lasted
from stenolog.domain.entry import Entry
from stenolog.domain.erasure import erasure_of
from stenolog.domain.events import AssistantMessage, Event, LlmError, ToolResult, UserMessage
from stenolog.domain.lanes.limits import Tokens
from stenolog.domain.parts import ImagePart, Part
from stenolog.projections.analysis.cache.calls import cost_anew
from stenolog.projections.prices import known_cost
from stenolog.projections.views.blocks import Block, CallBlock, blocks, output
from stenolog.projections.views.calls import CallOutcome, CallStatus, without_result
from stenolog.projections.views.edits import ChangedFiles
from stenolog.projections.views.lines import describe, entry_line, in_words, kind_word
from stenolog.projections.views.outline import OutlineRow
from stenolog.projections.views.timeline import cut_words
from stenolog.projections.views.tool_pairs import CallKey

if TYPE_CHECKING:
    from stenolog.apps.inspect.conversation_index import ConversationIndex
    from stenolog.apps.inspect.query import Query

LONGEST = 20_000
"""The most characters of a block that are shown."""
LONGEST_OUTPUT = 4_000
"""The most characters of a result that are shown."""
LONGEST_NAME = 300
"""The most characters of a name that are shown."""
LONGEST_ENTRY = 200_000
"""The characters after which no more blocks of an entry, or of a call in it, are shown."""
MOST_LINES = 400
"""The most lines of a difference that are shown."""
EACH = 250
"""The characters as which a block, a call and a line of a difference count."""

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The types of pictures that are shown."""
TRIED = 1_024
"""The letters of a picture that are decoded to see whether it can be shown."""


class ReadAgent(NamedTuple):
    """A sub-agent that a call started: its address, brief, first entry, answers, and cost."""

    lane: str
    words: str
    position: int
    usd: str


class ReadCall(NamedTuple):
    """A call as it is read: with its result, how it ended, how long it took, and whom it started.

    `position` is that of its entry, `result` that of its result, 0 without one. `link` opens its file.
    """

    kind: str
    name: str
    gist: str
    blocks: tuple[Block, ...]
    output: tuple[Block, ...]
    status: CallStatus
    note: str
    took: str
    position: int
    result: int
    agents: tuple[ReadAgent, ...]
    link: str = ""


class ReadItem(NamedTuple):
    """An entry as it is read.

    `view` is the position of the request that it answers, or would be in; `lane` whose that is, if known.
    `facts` are in the margin. `miss` says what the prompt cache missed. `is_same`: the item before has the
    same speaker.
    """

    position: int
    kind: str
    who: str
    lane: str
    view: int
    time: str
    facts: tuple[str, ...]
    blocks: tuple[Block | ReadCall, ...]
    aside: str = ""
    miss: str = ""
    turn: int = 0
    model: str = ""
    is_same: bool = False
    files: ChangedFiles = ChangedFiles()


Shown = TypeVar("Shown", Block, Block | ReadCall)


class Reader:
    """The items of one conversation.

    `blobs` are the bytes of its pictures; None: pictures are named only. `why_missed` says in words why an
    answer's request missed the cache. `agent` is whose request is shown at an entry for nobody. `file_link`
    returns the address that opens the file of a call's arguments, or "".
    """

    def __init__(
        self,
        index: ConversationIndex,
        talk: Talk,
        open: dict[CallKey, CallStatus],
        blobs: Mapping[str, bytes] | None,
        why_missed: Callable[[Entry], str],
        agent: str = "",
        file_link: Callable[[str], str] = lambda arguments: "",
    ) -> None:
        self._index, self._talk, self._open = index, talk, open
        self._blobs, self._why_missed, self._agent = blobs, why_missed, agent
        self._file_link = file_link

    def items(self, positions: Sequence[int]) -> Iterator[ReadItem]:
        """Yield the items at these positions."""
        before = ""
        for entry in entries_at(self._talk, positions):
            item = self.item(entry)
            yield item._replace(is_same=bool(item.who) and item.who == before)
            before = item.who

    def item(self, entry: Entry) -> ReadItem:
        """Return an entry as it is read; a result with its call."""
        event, at = entry.event, entry.position
        lane = self._index.lane_at(at)
        kind, who = "erased" if erasure_of(event) else kind_word(event), describe(entry).who
        if isinstance(event, UserMessage) and event.author_kind == "person" and not event.author:
            who = "You"
        elif at in self._index.results:
            who = getattr(event, "name", "") or self._index.results[at].tool
        is_spoken = kind in ("user", "assistant", "summary") or isinstance(event, ToolResult)
        shown = tuple(_first_of(self._entry_blocks(entry), at)) if is_spoken else ()
        receipt = getattr(event, "receipt", None)
        is_answer = isinstance(event, AssistantMessage | LlmError)
        view = receipt.view if receipt is not None else at - 1 if is_answer else at
        turn = self._turn(at)
        return ReadItem(
            at,
            kind,
            who[:LONGEST_NAME],
            self._asked_of(event, lane),
            max(1, view),
            time_of(entry),
            tuple(_facts(event)),
            shown,
            aside=self._aside(entry, kind, shown),
            miss=self._miss(entry),
            turn=turn,
            model=getattr(event, "model", "")[:LONGEST_NAME],
            files=self._files(turn),
        )

    def _asked_of(self, event: Event, lane: str) -> str:
        """Return whose request an item shows: its author's, its first reader's, else the one asked for."""
        wanted = [lane] if isinstance(event, AssistantMessage | LlmError) else getattr(event, "to", ())
        agents = self._index.agents
        return next((each for each in (*wanted, self._agent) if each in agents), "")

    def _turn(self, at: int) -> int:
        """Return the number of the turn that begins at a position; 0 if none does."""
        begins = self._index.outline.begins
        place = bisect_left(begins, at)
        return place + 1 - self._index.untold if place < len(begins) and begins[place] == at else 0

    def _files(self, turn: int) -> ChangedFiles:
        if not turn:
            return ChangedFiles()
        first = turn - 1 + self._index.untold
        return self._index.files(*self._index.outline.begins[first : first + 2])

    def _aside(self, entry: Entry, kind: str, shown: tuple[object, ...]) -> str:
        if isinstance(entry.event, ToolResult):
            return "" if entry.position in self._index.results else self._index.outcome(entry).note
        if kind == "cut":
            return "From here on, what came before is no longer sent."
        if shown and kind in ("user", "assistant", "summary"):
            return cut_words(entry.event) if isinstance(entry.event, AssistantMessage) else ""
        return entry_line(entry).what

    def _entry_blocks(self, entry: Entry) -> Iterator[Block | ReadCall]:
        event = entry.event
        if isinstance(event, ToolResult):
            yield from self._result(entry, event)
            return
        parts = getattr(event, "parts", ())
        for block in blocks(parts):
            if isinstance(block, CallBlock):
                yield self._call(entry, block)
            elif block.text or block.kind == "picture":
                yield self._visible(block, parts)

    def _result(self, entry: Entry, event: ToolResult) -> Iterator[Block | ReadCall]:
        pair = self._index.results.get(entry.position)
        if pair is None:
            yield from (self._visible(each, event.parts) for each in output(event.parts))
            return
        called = self._talk.entry(pair.call)
        for block in blocks(getattr(called.event, "parts", ())):
            if isinstance(block, CallBlock) and block.nth == pair.nth:
                yield self._call(called, block)

    @cached_property
    def _started(self) -> dict[CallKey, list[OutlineRow]]:
        return self._index.started

    def _visible(self, block: Block, parts: Sequence[Part]) -> Block:
        """Return a block; words instead of a picture that cannot be shown."""
        if block.kind != "picture":
            return block
        if self._blobs is not None and is_picture(parts[block.part], self._blobs):
            return block
        return Block("plain", in_words([parts[block.part]]))

    def _call(self, entry: Entry, block: CallBlock) -> ReadCall:
        index, key = self._index, CallKey(entry.position, block.nth)
        found: tuple[Block, ...] = ()
        at, took = index.calls.get(key, 0), None
        outcome = without_result(key, self._open)
        if block.act is not None:
            outcome = CallOutcome(block.act.status)
            found = (Block("terminal", block.act.output),) if block.act.output else ()
        elif at and isinstance((result := self._talk.entry(at)).event, ToolResult):
            outcome, took = index.outcome(result), index.results[at].took
            parts = getattr(result.event, "parts", ())
            found = tuple(self._visible(each, parts) for each in output(parts, block.call))
        agents = tuple(_agent(row) for row in self._started.get(key, ()))
        given = tuple(_first_of(block.blocks, entry.position))
        found = tuple(_first_of(found, at or entry.position))
        name, link = block.call.name[:LONGEST_NAME], self._file_link(block.call.arguments)
        shown = given, found, *outcome, lasted(took), entry.position, at, agents
        return ReadCall("call", name, block.gist, *shown, link=link)

    def _miss(self, entry: Entry) -> str:
        event, missed = entry.event, self._index.missed.get(entry.position, 0)
        if not missed or not isinstance(event, AssistantMessage) or event.usage is None:
            return ""
        used = event.usage
        cost = cost_anew(missed, event.model, listed(), used.cache_write, used.cache_write_hour)
        words = f"cache missed: {missed:,} tokens read anew" + (f", {usd(cost)} USD" if cost else "")
        return " · ".join(filter(None, (words, self._why_missed(entry))))


def reader_of(query: Query) -> Reader:
    """Return the items of the conversation that a query names."""
    talk = query.conversation

    def why_missed(entry: Entry) -> str:
        # With a receipt both requests would be built: those of the panel say why.
        found = None if receipt_of(entry) else read_by(talk, entry)
        return "" if found is None else why_words(found)

    given = query.open_calls, query.log.blobs, why_missed, query.word("agent"), query.editor_link
    return Reader(query.index, talk, *given)


def _first_of(found: Iterable[Shown], at: int) -> Iterator[Shown | Block]:
    """Yield the blocks of an entry up to `LONGEST_ENTRY`, then one that leads to the others."""
    size = 0
    for one in found:
        if size > LONGEST_ENTRY:
            yield Block("more", f"More of entry {at}")
            return
        size += _size(one)
        yield one


def _size(one: Block | ReadCall) -> int:
    if isinstance(one, ReadCall):
        return EACH + sum(map(_size, (*one.blocks, *one.output)))
    return EACH + min(len(one.text), LONGEST) + EACH * min(len(one.lines), MOST_LINES)


def is_picture(part: object, blobs: Mapping[str, bytes]) -> bool:
    """Return whether browsers show a part, as far as its beginning says."""
    if not isinstance(part, ImagePart) or part.media_type not in PICTURES:
        return False
    if part.blob:
        return part.blob in blobs
    head, _, written = part.url.partition(",")
    return head.startswith("data:image/") and head.endswith(";base64") and bool(_decoded(written[:TRIED]))


def picture_in(part: object, blobs: Mapping[str, bytes]) -> bytes:
    """Return the bytes of a picture that browsers show; none if it is another part, or elsewhere."""
    if not isinstance(part, ImagePart) or not is_picture(part, blobs):
        return b""
    return blobs.get(part.blob, b"") if part.blob else _decoded(part.url.partition(",")[2])


def _decoded(written: str) -> bytes:
    try:
        return base64.b64decode(written, validate=True)
    except ValueError:
        return b""


def _agent(row: OutlineRow) -> ReadAgent:
    return ReadAgent(row.lane, row.words, row.position, cost_of(row))


def cost_of(row: OutlineRow) -> str:
    """Return what a row of the outline cost, in USD; empty if no price is known."""
    cost = known_cost(row.tokens, listed(), row.billed.values())
    return usd(cost) if cost else ""


def _facts(event: Event) -> Iterator[str]:
    if not isinstance(event, AssistantMessage | LlmError):
        return
    used = event.usage
    if used is not None:
        tokens = Tokens().plus(used)
        cost = used.cost if used.cost is not None else known_cost({event.model: tokens}, listed())
        if cost:
            yield f"{usd(cost)} USD"
        if used.input:
            cached = f" · {100 * used.cache_read // used.input} % cached" if used.cache_read else ""
            yield f"{_short(used.input)} in{cached}"
        if used.output:
            yield f"{_short(used.output)} out"
    if event.duration_ms:
        yield lasted(event.duration_ms)


def _short(number: int) -> str:
    return f"{number / 1000:.1f}k" if number >= 1000 else str(number)
