"""The first change between two prompts of one provider: where its cache ends, and what is other there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.domain.errors import StoredDataError
from stenolog.projections.requests.as_sent import without_marks
from stenolog.projections.requests.body_digest import compact
from stenolog.projections.requests.recipe import at_pointer

from .prompt_blocks import Block, Section
from .shared_prefix import first_pointer
from .word_diff import word_diff

How: TypeAlias = Literal["added", "removed", "moved", "changed", "cleared", "thinking removed", "rewound"]
THOUGHTS = frozenset(("thinking", "redacted_thinking", "reasoning"))
RESULTS = frozenset(("tool_result", "function_call_output", "custom_tool_call_output"))
REASONING = ("reasoning", "reasoning_content", "reasoning_details")
"""The keys of a message of Chat Completions that its thinking stands under."""
CLEARED = 400
"""Characters up to which what is left of a result says that it was cleared."""
MOST_SPANS, LONGEST_SPAN = 4, 80
TEXTS = ("content", "parts", "system", "text", "output")
"""The last steps of pointers to a text that is read as one block of text."""


class PromptChange(NamedTuple):
    """The first change: `same` blocks stand before it.

    `pointer` leads to it in the later body, or in the earlier one to what is gone from an end; `offset` is
    the character in the text there, -1 where no text changed. `old` and `new` are the blocks there. `words`
    say what is other.
    """

    same: int
    section: Section
    how: How
    pointer: str
    offset: int
    words: str
    old: Block | None
    new: Block | None


def common_blocks(before: Sequence[Block], after: Sequence[Block]) -> int:
    """Return how many blocks from the beginning are the same."""
    pairs = zip(before, after, strict=False)
    return next((n for n, (old, new) in enumerate(pairs) if old.key != new.key), min(len(before), len(after)))


def first_change(before: Sequence[Block], after: Sequence[Block]) -> PromptChange | None:
    """Return the first change; None where one of both is the beginning of the other."""
    same = common_blocks(before, after)
    if same in (len(before), len(after)):
        return None
    old, new = before[same], after[same]
    if old.section != new.section:
        return _of_other_section(same, before, after)
    if old.section == "setting" and old.pointer == new.pointer:
        return _changed(same, old, new, is_followed=True, is_last=False)
    later_old = {block.key for block in before[same + 1 :] if block.section == old.section}
    later_new = {block.key for block in after[same + 1 :] if block.section == new.section}
    if old.section == "tools":
        return _of_tools(same, before, after)
    if old.key in later_new:
        moved = new.key in later_old
        return _change(same, "moved" if moved else "added", new.pointer, old, new, _quoted(new))
    if new.key in later_old:
        how: How = "thinking removed" if _is_thought(old.value) else "removed"
        return _change(same, how, new.pointer, old, new, _quoted(old))
    return _changed(same, old, new, is_followed=bool(later_old & later_new), is_last=same + 1 == len(before))


def _change(
    same: int, how: How, pointer: str, old: Block | None, new: Block | None, words: str, offset: int = -1
) -> PromptChange:
    there = new or old
    assert there is not None
    return PromptChange(same, there.section, how, pointer, offset, words, old, new)


def _of_other_section(same: int, before: Sequence[Block], after: Sequence[Block]) -> PromptChange:
    """Return the change where one section ends: something came behind it, or went from its end."""
    old, new = before[same], after[same]
    if any(block.section == old.section for block in after[same:]):
        return _change(same, "added", new.pointer, None, new, _quoted(new))
    return PromptChange(same, old.section, "removed", old.pointer, -1, _quoted(old), old, None)


def _of_tools(same: int, before: Sequence[Block], after: Sequence[Block]) -> PromptChange:
    """Return the change of the tools, by their names."""
    old, new = before[same], after[same]
    was = [_name(block.value) for block in before if block.section == "tools"]
    now = [_name(block.value) for block in after if block.section == "tools"]
    gone, came, one, other = {*was} - {*now}, {*now} - {*was}, _name(old.value), _name(new.value)
    if one == other:
        found = _changed(same, old, new, is_followed=True, is_last=False)
        return found._replace(how="changed", words=f"{one}: {found.words}")
    if other in came:
        words = f"{_joined_names(came)} came" + (f", {_joined_names(gone)} went" if gone else "")
        return _change(same, "added", new.pointer, old, new, words)
    if one in gone:
        words = f"{_joined_names(gone)} went" + (f", {_joined_names(came)} came" if came else "")
        return _change(same, "removed", new.pointer, old, new, words)
    return _change(same, "moved", new.pointer, old, new, f"{other} stands before {one}")


def _joined_names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _name(tool: Any) -> str:
    inner = tool.get("function", tool) if isinstance(tool, Mapping) else {}
    inner = inner if isinstance(inner, Mapping) else {}
    return str(inner.get("name") or inner.get("type") or "")


def _changed(same: int, old: Block, new: Block, *, is_followed: bool, is_last: bool) -> PromptChange:
    """Return the change of one block into another."""
    pointer, offset, one, other = _inner(old, new)
    if old.section != "messages":
        return _change(same, "changed", pointer, old, new, _difference(one, other), offset)
    if _lost_thinking(old.value, new.value):
        return _change(same, "thinking removed", pointer, old, new, _quoted(old), offset)
    how: How = "changed"
    if _is_result(old.value) and _is_result(new.value):
        is_short = len(new.key) < len(old.key) and len(new.key) <= CLEARED
        how = "cleared" if is_short else "changed"
    elif _is_thought(old.value) and not _is_thought(new.value):
        how = "thinking removed"
    elif not is_followed and not (is_last and _is_alike(one, other)):
        # Nothing of what stood behind it is there any more: the conversation goes another way.
        return _change(same, "rewound", new.pointer, old, new, _quoted(new))
    return _change(same, how, pointer, old, new, _difference(one, other), offset)


def _inner(old: Block, new: Block) -> tuple[str, int, Any, Any]:
    """Return the pointer to the first value that differs, the character in it, and both values."""
    one, other = (_bare(block.value) for block in (old, new))
    if compact(one) == compact(other):  # its role alone
        return new.pointer, -1, one, other
    within = first_pointer(one, other)
    try:
        one, other = at_pointer(one, within), at_pointer(other, within)
    except StoredDataError:
        one, other = None, None
    pointer = new.pointer + within
    if new.pointer.rpartition("/")[2] in TEXTS and within == "/text":
        pointer = new.pointer
    if not (isinstance(one, str) and isinstance(other, str)):
        return pointer, -1, one, other
    pairs = enumerate(zip(one, other, strict=False))
    offset = next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
    return pointer, offset, one, other


def _bare(value: Any) -> Any:
    return without_marks({"value": value})[0]["value"]


def _is_alike(one: Any, other: Any) -> bool:
    """Return whether a text is another form of one: both begin, or end, with the same half."""
    if not (isinstance(one, str) and isinstance(other, str)):
        return False
    half = min(len(one), len(other)) // 2
    return bool(half) and (one[:half] == other[:half] or one[-half:] == other[-half:])


def _is_thought(value: Any) -> bool:
    return isinstance(value, Mapping) and (value.get("type") in THOUGHTS or value.get("thought") is True)


def _is_result(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    return value.get("type") in RESULTS or value.get("role") == "tool" or "functionResponse" in value


def _lost_thinking(old: Any, new: Any) -> bool:
    """Return whether a message of Chat Completions is the same without its thinking."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return False
    lost = [key for key in REASONING if key in old and key not in new]
    return bool(lost) and compact({key: old[key] for key in old if key not in REASONING}) == compact(new)


def _quoted(block: Block) -> str:
    if block.section == "tools":
        return _name(block.value)
    value = block.value
    text = next((value[key] for key in TEXTS if isinstance(value.get(key), str)), "") if _has(value) else ""
    return _short(text or value if isinstance(text or value, str) else compact(value))


def _has(value: Any) -> bool:
    return isinstance(value, Mapping)


def _difference(one: Any, other: Any) -> str:
    """Say in short what is other: the words that went and that came."""
    if not (isinstance(one, str) and isinstance(other, str)):
        return f"{_short(compact(one))} → {_short(compact(other))}"
    spans = [span for span in word_diff(one, other) if span.sign != "=" and span.text.strip()]
    shown = [f"{'-' if span.sign == '-' else '+'}{_short(span.text)}" for span in spans[:MOST_SPANS]]
    more = f" and {len(spans) - MOST_SPANS} more" if len(spans) > MOST_SPANS else ""
    return " ".join(shown) + more


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_SPAN else f"{line[:LONGEST_SPAN]}…"
