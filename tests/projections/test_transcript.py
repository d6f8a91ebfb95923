"""A conversation as a document: Markdown, and one HTML page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest

import stenolog
from stenolog import AssistantMessage, Conversation, ToolCall, ToolResult, UserMessage
from stenolog.analysis import diff
from stenolog.apps.cli.commands.see.demo import record
from stenolog.apps.cli.demo_events import BEGINNING
from stenolog.context import LastN

NASTY = "<script>alert(1)</script> & ``` ```` ![x](http://there/x.png) \x1b[31m \u202e"


class Page(HTMLParser):
    """A page as a browser takes it: its elements, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def demo() -> Iterator[Conversation]:
    """Yield the beginning of the demo."""
    with stenolog.open(":memory:") as log:
        record(log["demo"], BEGINNING)
        yield log["demo"]


@pytest.fixture
def nasty() -> Iterator[Conversation]:
    """Yield a conversation whose words and names would be Markdown, HTML or a terminal's."""
    with stenolog.open(":memory:") as log:
        conversation = log["demo"]
        conversation.append(UserMessage(NASTY, author=NASTY))
        call = ToolCall(id="1", name=NASTY, arguments=NASTY)
        conversation.append(AssistantMessage(agent="coder", text=NASTY, tool_calls=[call]))
        conversation.append(ToolResult(call_id="1", name=NASTY, text=NASTY))
        yield conversation


def test_markdown_has_a_title_and_every_word_that_was_said(demo: Conversation) -> None:
    document = demo.export("markdown")

    assert document.startswith("# the flaky parser\n")
    for words in ("Which test fails, and why?", "I'll run them.", '{"cmd": "pytest -q"}', "12 passed"):
        assert words in document
    assert "**user → coder** · 2026-11-20 09:00 · 2\n\nWhich test fails, and why?\n" in document
    assert "**coder** · 2026-11-20 09:00 · 3 calls `shell` ✗ failed\n" in document


def test_a_fence_is_longer_than_any_in_what_it_holds(nasty: Conversation) -> None:
    document = nasty.export("markdown")
    fences = re.findall(r"^(`{3,})\w*$", document, re.MULTILINE)

    assert set(fences) == {"`````"}
    assert len(fences) == 4


def test_names_are_no_markdown(nasty: Conversation) -> None:
    heading = next(line for line in nasty.export("markdown").splitlines() if line.startswith("**"))

    assert "\\<script\\>" in heading
    assert "\\!" in heading or "!\\[x\\]" in heading


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script>alert(1)&lt;/script>"),
        ("<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)>"),
        ("a < b, 1<2 and **bold**", "a < b, 1<2 and **bold**"),
        ("[x](javascript:alert(1))", "[x]\\(javascript:alert(1))"),
        ("[x](  java&Tab;script:alert(1))", "[x]\\(  java&Tab;script:alert(1))"),
        ("[x](&#106;avascript:a)", "[x]\\(&#106;avascript:a)"),
        ("[x](\njavascript:a)", "[x]\\(\njavascript:a)"),
        ("![x](data:text/html,a)", "![x]\\(data:text/html,a)"),
        ("[x][1]\n\n[1]: vbscript:a", "[x][1]\n\n[1]\\: vbscript:a"),
        ("[x](https://a.example/?q=1) [y](docs/a.md)", "[x](https://a.example/?q=1) [y](docs/a.md)"),
        ("```html\n<b>\n```\n<b>", "```html\n<b>\n```\n&lt;b>"),
        ("```a`b\n<b>", "```a`b\n&lt;b>"),
        ("~~~\n```\n<b>\n~~~\n<b>", "~~~\n```\n<b>\n~~~\n&lt;b>"),
        ("````\n```\n<b>", "````\n```\n<b>\n````"),
    ],
)
def test_what_was_said_is_markdown_without_html_and_links_to_scripts(said: str, shown: str) -> None:
    with stenolog.open(":memory:") as log:
        log["talk"].append(UserMessage(said))
        document = log["talk"].export("markdown")
    assert document.partition("\n\n**user**")[2].partition("\n\n")[2] == f"{shown}\n"


def test_a_document_has_nothing_that_a_terminal_obeys(nasty: Conversation) -> None:
    for form in ("markdown", "html"):
        assert not {"\x1b", "\u202e"} & set(nasty.export(form))


def test_a_page_has_every_word_that_was_said(demo: Conversation) -> None:
    page = Page(demo.export("html"))

    for words in ("the flaky parser", "Which test fails, and why?", "pytest -q", "12 passed"):
        assert words in page.text


def test_nothing_that_was_said_is_html(nasty: Conversation) -> None:
    page = Page(nasty.export("html"))

    assert page.text.count("<script>alert(1)</script>") >= 4
    assert {*("h1", "p", "article", "header", "b", "pre")} <= set(page.tags)
    assert page.tags.count("script") == 2
    assert not {"img", "iframe", "link", "object"} & set(page.tags)
    assert {str(value)[:1] for name, value in page.attributes if name in ("href", "action")} == {"#"}


# What a notebook shows of a conversation, a request, a difference and a timeline.


HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)> \x1b[31m \u202e \"'"
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
        talk.append(AssistantMessage(agent="coder", text=HOSTILE, tool_calls=[call]))
        talk.append(ToolResult(call_id="c1", text=f"1 failed {HOSTILE}"))
        talk.append(UserMessage("And now?", author=HOSTILE, to=["coder"]))
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


def test_a_log_some_entries_and_hits_are_tables_and_lists_as_before(talk: stenolog.Conversation) -> None:
    talk.log["later"].append(UserMessage("Bake."))

    assert re.search(r">talk<.*>5<.*>Which test fails\?<.*>later<.*>2<.*>Bake\.<", html(talk.log))
    assert "2 conversations" in html(talk.log)
    assert "3 entries" in html(talk[2:5])
    assert talk[2:5] == [talk.entry(3), talk.entry(4), talk.entry(5)]
    assert "0 entries" in html(talk[5:2])
    hits = talk.log.search("failed")
    assert "1 hits" in html(hits)
    assert re.search(r">talk<.*>4<.*>tool_result<.*<.*1 failed", html(hits))


def test_every_text_is_escaped_and_nothing_is_run_or_loaded(talk: stenolog.Conversation) -> None:
    request, told = talk.request("coder"), talk.log["<script>alert(1)</script>"]
    told.append(UserMessage(HOSTILE, author=HOSTILE))
    lists = (talk.log, told[:], talk.log.search("alert"))
    for shown in (talk, request, diff(talk.request("coder", at=3), request), talk.timeline(), *lists):
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
