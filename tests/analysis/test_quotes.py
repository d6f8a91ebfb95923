"""Which other entries quote one that is to be erased."""

from __future__ import annotations

import pytest

from stenolog import AssistantMessage, Event, ToolCall, UserMessage
from stenolog.projections.analysis.quotes import quoting
from stenolog.testing import entries

LINE = 'a "line" of 24 character'


@pytest.mark.parametrize(
    ("erased", "other", "is_quote"),
    [
        (UserMessage(text="twelve chars"), "so: twelve chars!", True),
        (UserMessage(text="eleven char"), "so: eleven char!", False),
        (UserMessage(text=f"{LINE}\nand more"), f"so: {LINE}!", True),
        (UserMessage(text=f"{LINE[1:]}\nand more"), f"so: {LINE[1:]}!", False),
        (AssistantMessage(agent="a", tool_calls=[ToolCall(id="c", name="n", arguments=LINE)]), LINE, True),
        (
            AssistantMessage(agent="a", tool_calls=[ToolCall(id="c", name="n", arguments=LINE[1:])]),
            LINE,
            False,
        ),
    ],
)
def test_a_text_of_12_characters_a_line_or_arguments_of_24_are_found_where_they_are_quoted(
    erased: Event, other: str, is_quote: bool
) -> None:
    assert quoting(entries(erased, UserMessage(text=other)), {1}) == [2] * is_quote
