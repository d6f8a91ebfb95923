"""Difference between two prompts: what both begin with, as their provider reads them, and what ended it.

A provider keeps the beginning, block after block. All after the first different block is read again, and paid
in full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from stenolog.domain.card import AgentCard
from stenolog.domain.entry import Entry
from stenolog.domain.errors import StoredDataError
from stenolog.domain.lanes.state import runs_in_words
from stenolog.domain.values import Usage
from stenolog.projections.formats.caching import Block, Section, content_of
from stenolog.projections.formats.readable import texts
from stenolog.projections.messages.body_digest import by_hash, compact, escape
from stenolog.projections.messages.json_fields import same_from_start
from stenolog.projections.requests import Request
from stenolog.projections.requests.as_sent import FOLLOWED
from stenolog.projections.requests.part_texts import messages
from stenolog.projections.requests.recipe import at_pointer

from ..word_diff import word_diff
from .causes import Cause, FirstChange, How, cause_of
from .changes import ONE_LOG, PartChange, Twins, changes
from .prompts import Prompt, prompt_of

SECTIONS: tuple[Section, ...] = ("model", "tools", "system", "setting")
CLEARED = 400
"""Characters up to which what is left of a result says that it was cleared."""
MOST_SPANS, LONGEST_SPAN = 4, 80
TOLERANCE = 512
"""Tokens, and a part of ten of all, by which an estimate may be off what the provider counts."""


class Compared(NamedTuple):
    """Two prompts compared: so many blocks of both are the `same`, then the first change.

    `again` are the numbers of the following blocks that the earlier prompt had too, or mostly had. `change`
    is None if one prompt is the beginning of the other.
    """

    same: int
    change: FirstChange | None
    again: tuple[int, ...]


class Shared(NamedTuple):
    """The common beginning of two prompts: whole messages of the body, tokens, blocks.

    `sections` are those beside the messages that are in it whole, or that neither has.
    """

    messages: int
    tokens: int
    blocks: int
    sections: tuple[Section, ...]

    def has(self, message: int, role: str) -> bool:
        """Return whether a part is in it, by its message's index and role."""
        section = "setting" if role == "parameters" else role
        return message < self.messages if message >= 0 else section in self.sections


class RequestDiff(NamedTuple):
    """Two requests compared, in tokens as a budget counts them.

    `shared` is their common beginning, `fresh` are the other tokens of the later prompt. `again` of these
    were in the earlier one too, and are read again because of `first`, the first change; None if one prompt
    is the beginning of the other. `around` names what differs beside the messages, as JSON pointers. `equal`:
    the bodies are the same, to the byte.
    """

    shared: Shared
    fresh: int
    again: int
    first: Cause | None
    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int
    around: tuple[str, ...]
    equal: bool
    changes: tuple[PartChange, ...]

    def _repr_html_(self) -> str:
        from stenolog.projections.html_table import table  # late: few programs show one

        shared = f"{self.shared.messages:,} messages shared, {self.shared.tokens:,} tokens"
        around = f"; beside the messages: {', '.join(self.around)}" if self.around else ""
        return table(
            f"{self.tokens_before:,} → {self.tokens_after:,} tokens, {shared}{around}",
            ("", "entries", "role", "rule", "tokens", "text"),
            len(self.changes),
            lambda first, end: (
                (
                    each.sign,
                    runs_in_words([(each.first, each.last)]) if each.last else "",
                    each.role,
                    each.rule or each.was,
                    f"{each.tokens_after - each.tokens_before:+,}",
                    f"{each.parts:,} parts: {each.text}" if each.parts > 1 else each.text,
                )
                for each in self.changes[first:end]
            ),
        )


def diff(
    before: Request,
    after: Request,
    between: Sequence[Entry] = (),
    card: AgentCard | None = None,
    usage: Usage | None = None,
    twins: Twins = ONE_LOG,
) -> RequestDiff:
    """Return the difference between two requests of one API.

    `between` are the entries that the later one has beside the earlier one: one of them caused the first
    change. `card` is the agent's at the earlier one, `usage` what the later one was billed. `twins` are the
    entries that both have, if they are of two logs. Tokens of both are at the later one's rate.
    """
    before = before.at_rate(after.rate)
    then, now = _prompts(before, after)
    read = None if usage is None else usage.cache_read * now.tokens // max(usage.input, 1)
    found = compared(then, now._replace(read=read))
    blocks = then.blocks, now.blocks
    first, last = messages(before), messages(after)
    shared, around = _shared(before, after, then, now, found.same), tuple(_around(before, after))
    return RequestDiff(
        shared,
        after.tokens - shared.tokens,
        now.tokens_in(found.again),
        found.change and cause_of(found.change, (before, after), blocks, between, card),
        len(first),
        len(last),
        before.tokens,
        after.tokens,
        around,
        not around and _are_same(first, last),
        changes(before, after, twins),
    )


def shared_beginning(before: Request, after: Request) -> Shared:
    """Return two requests' common beginning, on one API, at the later one's rate."""
    before = before.at_rate(after.rate)
    then, now = _prompts(before, after)
    return _shared(before, after, then, now, compared(then, now).same)


def _prompts(before: Request, after: Request) -> tuple[Prompt, Prompt]:
    then = prompt_of(before)
    return then, following(prompt_of(after), after, then)


def _shared(before: Request, after: Request, then: Prompt, now: Prompt, same: int) -> Shared:
    rest = [*then.blocks[same:], *now.blocks[same:]]
    messages_in_both = min(len(messages(before)), len(messages(after)))
    whole = min((block.message for block in rest if block.message >= 0), default=messages_in_both)
    differing = {block.section for block in rest}
    tokens = before.tokens if same == len(then.blocks) else now.ends[same]
    sections = tuple(one for one in SECTIONS if one not in differing)
    return Shared(whole, min(tokens, before.tokens, after.tokens), same, sections)


def following(prompt: Prompt, request: Request, before: Prompt | None) -> Prompt:
    """Return a prompt with the messages that its provider keeps of the one it continues."""
    if before is None or not request.body.get(FOLLOWED):
        return prompt
    front = [block for block in prompt.blocks if block.section != "messages"]
    known = [block for block in before.blocks if block.section == "messages"]
    return prompt.with_blocks([*front, *known, *prompt.blocks[len(front) :]])


def compared(before: Prompt, after: Prompt) -> Compared:
    """Return how two prompts differ, unless the provider's reading of the later one rules it out."""
    old, new = before.blocks, after.blocks
    same = _common(old, new)
    if (
        same < min(len(old), len(new))
        and _is_unread(new[same], after)
        and (after.read or 0) > after.ends[same] + max(TOLERANCE, after.tokens // 10)
    ):
        # A provider that takes it off reads what is after it.
        old, new = ([_unread(block, after) for block in blocks] for blocks in (old, new))
        same = _common(old, new)
    change = None if same in (len(old), len(new)) else _first_change(same, old, new)
    left = Counter(block.key for block in old[same:])
    again = []
    for number, block in enumerate(new[same : after.last], same):
        if left[block.key]:
            left[block.key] -= 1
            again.append(number)
        elif change is not None and block is change.new and _is_mostly_same(change):
            again.append(number)
    return Compared(same, change, tuple(again))


class Carried(NamedTuple):
    """Blocks of a request's messages that another one `lacks`, and that it `adds`; `found` are in both."""

    found: int
    lacks: tuple[Block, ...]
    adds: tuple[Block, ...]


def carried(before: Request, after: Request) -> Carried:
    """Return which words, calls, results and pictures of a request another program's has, in any form."""
    old, new = (
        [block for block in prompt_of(each).blocks if block.section == "messages"] for each in (before, after)
    )
    lacks, adds = _beyond(old, new), _beyond(new, old)
    return Carried(len(old) - len(lacks), lacks, adds)


def _beyond(blocks: Sequence[Block], others: Sequence[Block]) -> tuple[Block, ...]:
    left = Counter(map(content_of, others))
    rest = []
    for block in blocks:
        if left[content := content_of(block)]:
            left[content] -= 1
        else:
            rest.append(block)
    return tuple(rest)


def _common(before: Sequence[Block], after: Sequence[Block]) -> int:
    return same_from_start([block.key for block in before], [block.key for block in after])


def _is_unread(block: Block, prompt: Prompt) -> bool:
    begin = prompt.rules.unread
    return bool(begin) and block.section == "system" and next(texts(block.value), "").startswith(begin)


def _unread(block: Block, prompt: Prompt) -> Block:
    return block._replace(key="") if _is_unread(block, prompt) else block


def _is_mostly_same(change: FirstChange) -> bool:
    """Return whether all of a block would have been read, but for a changed part."""
    old, new = change.old, change.new
    if old is None or new is None or change.section == "messages" or change.how != "changed":
        return False
    return max(len(old.key), len(new.key)) < 2 * min(len(old.key), len(new.key))


def _first_change(same: int, before: Sequence[Block], after: Sequence[Block]) -> FirstChange:
    old, new = before[same], after[same]
    if old.section != new.section:
        return _of_other_section(old, new, after[same:])
    if old.section == "setting" and old.pointer == new.pointer:
        return _changed(old, new, is_followed=True, is_last=False)
    if old.section == "tools":
        return _of_tools(old, new, before, after)
    later_old = {block.key for block in before[same + 1 :] if block.section == old.section}
    later_new = {block.key for block in after[same + 1 :] if block.section == new.section}
    if old.key in later_new:
        moved = new.key in later_old
        return _change("moved" if moved else "added", new.pointer, old, new, _quoted(new))
    if new.key in later_old:
        how: How = "thinking removed" if old.kind == "thought" else "removed"
        return _change(how, new.pointer, old, new, _quoted(old))
    return _changed(old, new, is_followed=bool(later_old & later_new), is_last=same + 1 == len(before))


def _change(
    how: How, pointer: str, old: Block | None, new: Block | None, words: str, offset: int = -1
) -> FirstChange:
    section = new or old
    assert section is not None
    return FirstChange(section.section, how, pointer, offset, words, old, new)


def _of_other_section(old: Block, new: Block, after: Sequence[Block]) -> FirstChange:
    if any(block.section == old.section for block in after):
        return _change("added", new.pointer, None, new, _quoted(new))
    return _change("removed", old.pointer, old, None, _quoted(old))


def _of_tools(old: Block, new: Block, before: Sequence[Block], after: Sequence[Block]) -> FirstChange:
    was, now = ({block.name for block in blocks if block.section == "tools"} for blocks in (before, after))
    gone, came = ", ".join(sorted(was - now)), ", ".join(sorted(now - was))
    if old.name == new.name:
        found = _changed(old, new, is_followed=True, is_last=False)
        return found._replace(how="changed", words=f"{old.name}: {found.words}")
    if new.name not in was:
        words = f"{came} came" + (f", {gone} went" if gone else "")
        return _change("added", new.pointer, old, new, words)
    if old.name not in now:
        words = f"{gone} went" + (f", {came} came" if came else "")
        return _change("removed", new.pointer, old, new, words)
    return _change("moved", new.pointer, old, new, f"{new.name} stands before {old.name}")


def _changed(old: Block, new: Block, *, is_followed: bool, is_last: bool) -> FirstChange:
    pointer, offset, one, other = _inner(old, new)
    if old.section != "messages":
        return _change("changed", pointer, old, new, _difference(one, other), offset)
    how: How = "changed"
    if old.kind == new.kind == "result":
        is_short = len(new.key) < len(old.key) and len(new.key) <= CLEARED
        how = "cleared" if is_short else "changed"
    elif old.kind == "thought" != new.kind:
        how = "thinking removed"
    elif not is_followed and not (is_last and _is_alike(one, other)):
        # Nothing of what was after it is there any more: the conversation goes another way.
        return _change("rewound", new.pointer, old, new, _quoted(new))
    return _change(how, pointer, old, new, _difference(one, other), offset)


def _inner(old: Block, new: Block) -> tuple[str, int, Any, Any]:
    """Return the pointer to the first different value, the character in it, and both values."""
    one, other = old.value, new.value
    if compact(by_hash(one)) == compact(by_hash(other)):  # its role alone
        return new.pointer, -1, one, other
    within = first_pointer(one, other)
    try:
        one, other = at_pointer(one, within), at_pointer(other, within)
    except StoredDataError:
        one, other = None, None
    pointer = new.pointer + within.removeprefix(new.wrapped)
    if not (isinstance(one, str) and isinstance(other, str)):
        return pointer, -1, one, other
    return pointer, same_from_start(one, other), one, other


def first_pointer(one: Any, other: Any, pointer: str = "") -> str:
    """Return the JSON pointer to the first different value, in the order of writing.

    The values must differ. If only one has it, the pointer is that one's.
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for (key, left), (other_key, right) in zip(one.items(), other.items(), strict=False):
            if key != other_key:
                return f"{pointer}/{escape(other_key)}"
            if not _same_bytes(left, right):
                return first_pointer(left, right, f"{pointer}/{escape(key)}")
        rest = [*max(one, other, key=len)][min(len(one), len(other)) :]
        return f"{pointer}/{escape(rest[0])}" if rest else pointer
    if isinstance(one, list) and isinstance(other, list):
        for index, (left, right) in enumerate(zip(one, other, strict=False)):
            if left is not right and not _same_bytes(left, right):
                return first_pointer(left, right, f"{pointer}/{index}")
        return f"{pointer}/{min(len(one), len(other))}"
    return pointer


def _same_bytes(one: Any, other: Any) -> bool:
    """Return whether both are written in the same bytes; keys' order counts, blobs' hash."""
    if one is other or isinstance(one, str) or one != other:
        return one is other or bool(one == other)
    return repr(by_hash(one)) == repr(by_hash(other))


def _is_alike(one: Any, other: Any) -> bool:
    """Return whether a text is another form of one: both begin, or end, with the same half."""
    if not (isinstance(one, str) and isinstance(other, str)):
        return False
    half = min(len(one), len(other)) // 2
    return bool(half) and (one[:half] == other[:half] or one[-half:] == other[-half:])


def _quoted(block: Block) -> str:
    return block.name or _short(next(texts(block.value), "") or block.key)


def _difference(one: Any, other: Any) -> str:
    if not (isinstance(one, str) and isinstance(other, str)):
        return f"{_short(compact(one))} → {_short(compact(other))}"
    spans = [span for span in word_diff(one, other) if span.sign != "=" and span.text.strip()]
    shown = [f"{'-' if span.sign == '-' else '+'}{_short(span.text)}" for span in spans[:MOST_SPANS]]
    more = f" and {len(spans) - MOST_SPANS} more" if len(spans) > MOST_SPANS else ""
    return " ".join(shown) + more


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_SPAN else f"{line[:LONGEST_SPAN]}…"


def _around(before: Request, after: Request) -> Iterable[str]:
    keys = {before.messages_key, after.messages_key}
    for key in dict.fromkeys((*before.body, *after.body)):
        if key not in keys and not _same_bytes(before.body.get(key), after.body.get(key)):
            yield f"/{escape(key)}"


def _are_same(first: Sequence[Any], last: Sequence[Any]) -> bool:
    return len(first) == len(last) and all(map(_same_bytes, first, last))
