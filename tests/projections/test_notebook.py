"""What a notebook shows of a conversation, a request, a difference and a timeline."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest

import stenolog
from stenolog import AssistantMessage, ToolCall, ToolResult, UserMessage
from stenolog.analysis import diff
from stenolog.context import LastN

NASTY = "<script>alert(1)</script><img src=x onerror=alert(1)> \x1b[31m \u202e \"'"
TAGS = {"p", "b", "table", "thead", "tbody", "tr", "th", "td"}


class Elements(HTMLParser):
    """The elements of a piece of HTML, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


def html(shown: object) -> str:
    """Return what a notebook asks of a value."""
    return str(shown._repr_html_())  # type: ignore[attr-defined]


@pytest.fixture
def talk() -> Iterator[stenolog.Conversation]:
    with stenolog.open(":memory:") as log:
        talk = log["talk"]
        talk.join("coder", model="gpt-5.2", persona="You mend what is broken.")
        talk.append(UserMessage("Which test fails?", to=["coder"]))
        call = ToolCall(id="c1", name="shell", arguments='{"cmd": "pytest"}')
        talk.append(AssistantMessage(agent="coder", text=NASTY, tool_calls=[call]))
        talk.append(ToolResult(call_id="c1", text=f"1 failed {NASTY}"))
        talk.append(UserMessage("And now?", author=NASTY, to=["coder"]))
        yield talk


def test_a_conversation_a_request_a_difference_and_a_timeline_are_tables(talk: stenolog.Conversation) -> None:
    talk.append(AssistantMessage(agent="coder", text="Now too."))
    talk.append(UserMessage("Thanks.", to=["coder"]))
    request = talk.request("coder", policy=LastN(1))

    assert "Which test fails?" in html(talk)
    assert "talk, 7 entries" in html(talk)
    assert re.search(r"left out.*beyond-last", html(request))
    assert f"sha256 {request.sha256[:12]}…" in html(request)
    assert "tokens, 4 messages shared" in html(diff(talk.request("coder", at=4), talk.request("coder")))
    assert "1 failed" in html(talk.timeline())
    assert talk.timeline() == list(talk.timeline())


def test_every_text_is_escaped_and_nothing_is_run_or_loaded(talk: stenolog.Conversation) -> None:
    request = talk.request("coder")
    for shown in (talk, request, diff(talk.request("coder", at=3), request), talk.timeline()):
        found = Elements(html(shown))
        assert found.tags <= TAGS
        assert found.attributes <= {"style", "colspan"}
        assert "<script>alert(1)</script>" in found.text
        assert not {"\x1b", "\u202e"} & set(found.text)


def test_of_a_long_one_the_first_and_the_last_are_shown_and_the_rest_is_counted(
    talk: stenolog.Conversation,
) -> None:
    talk.extend([UserMessage(f"number {each}", to=["coder"]) for each in range(1_000)])

    for shown in (
        talk,
        talk.request("coder"),
        talk.timeline(),
        diff(talk.request("coder", at=6), talk.request("coder")),
    ):
        page = html(shown)
        assert page.count("<tr") <= 52
        assert re.search(r"… 9\d\d more …", page)
        assert "number 999" in page
        assert len(page) < 50_000


def test_a_conversation_that_does_not_exist_yet_is_an_empty_table() -> None:
    with stenolog.open(":memory:") as log:
        assert "new, 0 entries" in html(log["new"])
