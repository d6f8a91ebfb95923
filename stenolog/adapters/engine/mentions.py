"""Agents that a text mentions as `@name`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from stenolog.domain.lanes.turns import rule_of
from stenolog.domain.values import TurnPolicy

MENTION = re.compile(r"(?<![\w@.])@([\w][\w./-]*)")
# Possessive quantifiers keep these patterns linear in texts that an agent or a stranger wrote.
_FENCED = re.compile(
    r"^ {0,3}(`{3,}+|~{3,}+)[^\n]*\n.*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)
_CITED = re.compile(r"^ {0,3}>.*$", re.MULTILINE)
_CODE = re.compile(r"(?<!`)(`++)(?:(?!\n\n).){1,2000}?(?<!`)\1(?!`)", re.DOTALL)
# A quotation begins behind a blank or a bracket and ends before no letter: apostrophes and inches are none.
_QUOTED = re.compile(
    r"(?<![^\s(\[{])(?:\"[^\"\n]+\"|'[^'\n]+')(?!\w)"
    r"|[\u201c\u201e][^\u201c\u201d\u201e\n]*[\u201c\u201d]|\u00ab[^\u00ab\u00bb\n]*\u00bb"
)


def mentions(text: str) -> Iterator[str]:
    """Yield the names mentioned as `@name`, outside code, quotes and cited lines."""
    for pattern in (_FENCED, _CITED, _CODE, _QUOTED):
        text = pattern.sub(" ", text)
    return (match.rstrip(".-/") for match in MENTION.findall(text))


def mentioned_agents(text: str, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return the agents that a text mentions, in order; `names` maps lower-case names to agents."""
    found = (names.get(word.casefold()) for word in mentions(text))
    return tuple(dict.fromkeys(name for name in found if name))


def agents_by_name(agents: Iterable[str]) -> dict[str, str]:
    """Return the agents by their names in lower case, with `_` for blanks."""
    return {"_".join(name.casefold().split()): name for name in agents}


def mentioned(
    text: str, names: Iterable[str], speaker: str, turns: TurnPolicy | None, *, by_name: bool
) -> tuple[str, ...]:
    """Return the agents that an answer hands on to, in order, without the speaker.

    Names hand on under a turn rule that says so; if no rule gives the turn, only `by_name`.
    """
    rule = rule_of(turns)
    if not (rule.hands_on(speaker) if rule.tracks_turns else by_name):
        return ()
    return tuple(
        name for name in mentioned_agents(text, {name.casefold(): name for name in names}) if name != speaker
    )
