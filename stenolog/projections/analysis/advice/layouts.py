"""Other prompts of the same words: other breakpoints, and what changes moved after what stays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from stenolog.projections.formats.caching import Block, Layout

from ..cache.prompts import Prompt

MOSTLY = 0.9
"""The part of the calls in which a line must be the same to stay."""
LEAST_CALLS = 3


def marks_under(prompt: Prompt, layout: Layout) -> list[tuple[int, int]]:
    """Return the breakpoints of a layout: numbers of blocks, and the seconds that each is kept."""
    numbered = [*enumerate(prompt.blocks, 1)]
    tools = max((n for n, block in numbered if block.section == "tools"), default=0)
    front = max((n for n, block in numbered if block.section == "system"), default=tools)
    marked = [n for n, block in numbered if block.section == "messages" and block.keeps]
    # Notes after the conversation are not marked, since they are not in the next request: two turns are then.
    end = max(marked, default=len(prompt.blocks))
    is_at_end = layout.turns == 1 and end == len(prompt.blocks)
    ends = [] if is_at_end else [*_ends_of_turns(numbered, end)][-2:]
    found: dict[int, int] = {}
    for number, seconds in (
        (tools, layout.tools),
        (front, layout.front),
        *((n, layout.messages) for n in ends or [end]),
    ):
        if number and seconds:
            found[number] = max(seconds, found.get(number, 0))
    return sorted(found.items())


def _ends_of_turns(numbered: Sequence[tuple[int, Block]], end: int) -> Iterator[int]:
    """Yield the last block of each message of the user up to the end of the conversation."""
    last = {block.message: n for n, block in numbered if block.message >= 0 and n <= end}
    yield from (n for n in last.values() if numbered[n - 1][1].key.startswith("user "))


class Moved(NamedTuple):
    """Prompts whose changing lines come after the conversation, and the first of these lines."""

    prompts: Sequence[Prompt]
    lines: int
    example: str


def moved(prompts: Sequence[Prompt]) -> Moved | None:
    """Return the prompts with the changing lines of the instructions at the end; None without any."""
    seen = Counter(line for prompt in prompts for line in {*_front_lines(prompt)})
    most = sum(1 for prompt in prompts if any(_front_lines(prompt)))
    stays = {line for line, times in seen.items() if times >= most * MOSTLY}
    gone = [line for line in seen if line not in stays and line.strip()]
    # Instructions that have nothing in common are those of other tasks.
    if most < LEAST_CALLS or not gone or not any(line.strip() for line in stays):
        return None
    return Moved([_apart(prompt, stays) for prompt in prompts], len(gone), gone[0].strip())


def _front_lines(prompt: Prompt) -> Iterator[str]:
    for block in prompt.blocks:
        if block.section == "system":
            yield from _text(block).splitlines(keepends=True)


def _text(block: Block) -> str:
    value = block.value
    if isinstance(value, Mapping):
        value = value.get("text", value.get("content"))
    return value if isinstance(value, str) else ""


def _apart(prompt: Prompt, stays: Iterable[str]) -> Prompt:
    kept = {*stays}
    front: list[Block] = []
    late: list[str] = []
    for block in prompt.blocks:
        lines = _text(block).splitlines(keepends=True) if block.section == "system" else []
        going = [line for line in lines if line not in kept]
        if not going:
            front.append(block)
            continue
        late += going
        rest = "".join(line for line in lines if line in kept)
        if rest:
            front.append(block._replace(value=rest, key=rest))
    if not late:
        return prompt
    text = "".join(late)
    return prompt._replace(blocks=[*front, Block("messages", "", text, text)])
