"""Items of a conversation that is read: marks that lead to each of them, limits, and answers cut at one."""

from __future__ import annotations

import base64
import json
import re
from functools import partial
from html import unescape

import pytest
from starlette.testclient import TestClient

import stenolog
from stenolog import AssistantMessage, Event, LlmError, ModeSwitch, ToolCall, ToolResult, UserMessage
from stenolog.apps.views.asked_request import AskedRequest
from stenolog.events import Origin, Usage
from stenolog.parts import ImagePart, TextPart
from stenolog.projections.requests import Request
from stenolog.projections.views.lines import describe
from stenolog.projections.views.overview import overview
from stenolog.projections.views.usage import usage

from . import hostile
from .words import words

BRIEF = "Look for every caller of parse in this folder."
NEXT, BEFORE = (
    "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}",
    "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}",
)
said = partial(AssistantMessage, agent="a")


def call(id: str, **arguments: object) -> ToolCall:
    return ToolCall(id=id, name="tool", arguments=json.dumps(arguments))


def write(log: stenolog.Log, *events: Event) -> str:
    talk = log["talk"]
    talk.extend([UserMessage("Mend it.", to=["a"]), *events], expected=0)
    return "talk"


def steps(web: TestClient, sign: str, start: int, of: str = "") -> list[int]:
    """Return the items to which a key leads, pressed again and again."""
    found = [start]
    while len(found) < 20:
        page = web.get("/marks/talk", params={"at": found[-1], "of": of}).text
        link = re.search(rf'href="([^"]+)" data-entry="(\d+)"[^>]*data-mark="error {sign}"', page)
        if not link:
            break
        current = r'class="item[^>]* data-position="(\d+)"[^>]* aria-current="true"'
        (at,) = re.findall(current, web.get(unescape(link[1])).text)
        assert at == link[2]
        found.append(int(at))
    return found[1:]


def test_each_error_is_reached_once_from_both_sides_and_a_sub_agents_where_it_was_called(
    web: TestClient, log: stenolog.Log
) -> None:
    failed = partial(ToolResult, text="It failed.", is_error=True)
    write(
        log,
        said(parts=[call("1"), call("2")]),  # 3
        failed(call_id="1"),
        failed(call_id="2"),
        said(parts=[call("3", prompt=BRIEF)]),  # 6
        UserMessage(BRIEF, author="a", author_kind="agent", to=["b"]),
        AssistantMessage(agent="b", parts=[call("4")]),  # 8
        failed(call_id="4"),
        LlmError(agent="b", category="timeout"),  # 10
        ToolResult(call_id="3", text="Nobody calls it."),
        said(parts=[call("5")]),  # 12
        failed(call_id="5"),
        LlmError(agent="a", category="timeout"),  # 14
        UserMessage("Thanks.", to=["a"]),
    )

    assert steps(web, NEXT, 2) == [3, 6, 12, 14]
    assert steps(web, BEFORE, 15) == [14, 12, 6, 3]
    assert steps(web, NEXT, 7, of="b") == [8, 10]
    assert steps(web, BEFORE, 10, of="b") == [8]
    assert "6 API errors and failed tools" in words(web.get("/marks/talk?at=1").text)


@pytest.mark.parametrize(
    "output",
    [
        "Chunk ID: 671c5a\nWall time: 0.3 seconds\nProcess exited with code 128\nOutput:\nfatal: no",
        "Exit code: 1\nWall time: 0 seconds\nOutput:\nno such file",
        '{"output":"no","metadata":{"exit_code":2,"duration_seconds":0.1}}',
    ],
)
def test_views_agree_on_errors_a_failure_in_codexs_words_is_one_and_a_cancelled_call_is_none(
    web: TestClient, log: stenolog.Log, output: str
) -> None:
    codex = partial(ToolResult, source=Origin(system="codex"))
    write(
        log,
        said(parts=[call("1"), call("2"), call("3")]),
        codex(call_id="1", text=output),
        codex(call_id="2", text=f"Process exited with code 0\nOutput:\n{output}"),
        ToolResult(call_id="3", text=output),
        LlmError(agent="a", category="cancelled"),
        LlmError(agent="a", category="timeout"),
    )
    talk = log["talk"]
    used, entries = talk.fold(usage).total, [*talk.entries()]
    assert (used.failed, used.tool_errors, talk.fold(overview).errors) == (1, 1, 1)
    assert [describe(entry).what[0] for entry in entries[3:6]] == ["✗", "✓", "✓"]
    assert "2 API errors and failed tools" in words(web.get("/marks/talk?at=1").text)
    assert "is_error" not in json.dumps(talk.request("a", api="anthropic").body)


@pytest.mark.parametrize("page", ["piece", "card"])
def test_an_answer_that_was_cut_at_its_limit_says_so(web: TestClient, log: stenolog.Log, page: str) -> None:
    write(log, said(text="The first of three", finish_reason="max_tokens"))

    shown = words(web.get(f"/{page}/talk?at=3&first=3").text)
    assert "The first of three" in shown
    assert "cut off at its limit of tokens (max_tokens)" in shown


@pytest.mark.parametrize(
    "parts",
    [
        [TextPart("x" * 1_000)] * 4_000,
        [call("1", path="a.py", edits=[{"old_string": "x", "new_string": "y" * 900}] * 4_000)],
        [call(str(nth), query="x" * 90) for nth in range(4_000)],
    ],
    ids=["parts", "edits", "calls"],
)
@pytest.mark.parametrize("page", ["piece", "card"])
def test_a_long_entry_is_shown_up_to_a_limit_and_leads_to_the_others(
    web: TestClient, log: stenolog.Log, parts: list[TextPart | ToolCall], page: str
) -> None:
    write(log, said(parts=parts))

    found = web.get(f"/{page}/talk?at=3&first=3").text
    assert len(found) < 1_000_000
    assert re.search(r'<a href="/entry/talk\?at=3">More of entry 3</a>', found)


def test_the_parts_of_a_long_result_are_shown_up_to_a_limit(web: TestClient, log: stenolog.Log) -> None:
    write(log, said(parts=[call("1")]), ToolResult(call_id="1", parts=[TextPart("x" * 1_000)] * 4_000))

    found = web.get("/piece/talk?first=3").text
    assert len(found) < 1_000_000
    assert re.search(r'<a href="/entry/talk\?at=4">More of entry 4</a>', found)


@pytest.mark.parametrize("page", ["piece", "card"])
def test_a_long_name_is_shown_up_to_a_limit(web: TestClient, log: stenolog.Log, page: str) -> None:
    long = "x" * 100_000
    spoken = UserMessage("Hello.", author=long)
    write(log, spoken, said(model=long, parts=[ToolCall(id="1", name=long, arguments="{}")]))

    for at in (3, 4):
        assert len(web.get(f"/{page}/talk?at={at}&first={at}&count=1").text) < 10_000


def test_a_picture_is_not_decoded_for_the_page_but_when_it_is_shown(
    web: TestClient, log: stenolog.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytes(100_000)
    picture = ImagePart(url=f"data:image/png;base64,{base64.b64encode(content).decode()}")
    wrong = ImagePart(url="data:image/png;base64,???")
    log["talk"].append(UserMessage(parts=[picture, wrong]))
    decoded, decode = [0], base64.b64decode

    def counted(written: str, *, validate: bool) -> bytes:
        decoded[0] += len(written)
        return decode(written, validate=validate)

    monkeypatch.setattr(base64, "b64decode", counted)
    page = web.get("/read/talk?at=2").text

    assert re.findall(r"part=(\d)", page) == ["0"]
    assert decoded[0] < 2_000
    assert web.get("/picture/talk?at=2&part=0").content == content


def test_a_turn_and_the_conversation_sum_the_files_that_calls_changed(
    web: TestClient, log: stenolog.Log
) -> None:
    edit = partial(call, file_path="a.py", old_string="1", new_string="2\n3")
    write(
        log,
        said(parts=[edit("1"), call("2", file_path="b.py", content="x\n"), edit("3")]),  # 3
        ToolResult(call_id="1", text="Done."),
        ToolResult(call_id="2", text="Done."),
        ToolResult(call_id="3", text="No.", is_error=True),
        UserMessage("Again.", to=["a"]),  # 7
        said(parts=[edit("4"), edit("5")]),  # 8, the second without a result
        ToolResult(call_id="4", text="Done."),
    )
    page = web.get("/read/talk?at=1").text

    assert [words(each) for each in re.findall(r"<summary>(Files.*?)</summary>", page)] == [
        "Files: 2 changed, +5 -2",
        "Files: 2 changed, +3 -1",
        "Files: 1 changed, +2 -1",
    ]
    left = page.partition('id="marks"')[0].partition('class="files"')[2]
    assert re.findall(r'data-entry="(\d+)"', left) == ["3", "8", "3"]


def test_a_miss_of_the_cache_says_why_and_the_request_and_its_difference_say_the_same(
    web: TestClient, log: stenolog.Log
) -> None:
    read, anew = (Usage(input=50_000, output=9, cache_read=read) for read in (48_000, 0))
    write(
        log,
        said(text="One.", usage=read, model="claude-opus-5"),
        said(text="Two.", usage=anew, model="claude-opus-5"),
    )
    (miss,) = re.findall(r'<p class="miss">(.*?)</p>', web.get("/read/talk?at=3").text)

    assert "50,000 tokens read anew" in words(miss)
    assert (
        "cause not known from this log: nothing was read; 0 s after the call before, no person spoke between"
        in words(miss)
    )
    for address in ("/panel/talk?at=3&agent=a", "/diff/talk?at=3&agent=a"):
        shown = words(web.get(address).text)
        assert "cache: 0 of 50,000 tokens read; 50,000 read anew" in shown, address


def test_no_request_is_built_before_the_words_of_an_answer_that_missed_the_cache(
    web: TestClient, log: stenolog.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(log)
    talk = log["talk"]
    for read in (48_000, 0):
        receipt, usage = talk.request("a").receipt, Usage(input=50_000, output=9, cache_read=read)
        talk.append(AssistantMessage(agent="a", text="Yes.", receipt=receipt, usage=usage))
    built: list[AskedRequest] = []
    request = AskedRequest.request

    def build(self: AskedRequest) -> Request:
        built.append(self)
        return request(self)

    monkeypatch.setattr(AskedRequest, "request", build)
    page = web.get("/piece/talk?first=1").text

    assert "cache missed: 50,000 tokens read anew" in words(page)
    assert "what changed" in words(page)
    assert not built
    assert "cache: 0 of 50,000 tokens read" in words(web.get(f"/panel/talk?at={len(talk) - 1}&agent=a").text)


# Links that open the file of a call in an editor, if one was named.


def hrefs(log: stenolog.Log, editor: str, *addresses: str) -> set[str]:
    """Return where the links of some pages lead that leave the site."""
    app = stenolog.inspector(log, token="", editor=editor)
    with TestClient(app, base_url="http://127.0.0.1") as client:
        pages = [client.get(address) for address in addresses]
    assert all("default-src 'none'" in page.headers["content-security-policy"] for page in pages)
    links = (unescape(link) for page in pages for link in re.findall(r'href="([^"]*)"', page.text))
    return {link for link in links if not link.startswith(("/", "?", "#"))}


def test_the_file_of_a_call_opens_in_the_editor_from_read_and_from_entries(log: stenolog.Log) -> None:
    calls = [call("1", file_path="oven.py", old_string="a", new_string="b"), call("2", path="/x", offset=9)]
    note = ModeSwitch(meta={"codex": {"cwd": "/home/user/bakery"}})
    write(log, note, said(parts=calls), ToolResult(call_id="1", text="done"))
    at = len(log["talk"]) - 1

    for page in (f"/read/talk?at={at}", f"/c/talk?at={at}", f"/card/talk?at={at}"):
        files = {"/home/user/bakery/oven.py:1", "/x:9"}
        assert hrefs(log, "vscode", page) == {f"vscode://file{file}" for file in files}
        assert hrefs(log, "", page) == set()


@pytest.mark.parametrize("text", hostile.TEXTS, ids=range(len(hostile.TEXTS)))
def test_a_hostile_path_is_part_of_the_address_of_the_editor_or_no_link(log: stenolog.Log, text: str) -> None:
    note = ModeSwitch(meta={"codex": {"cwd": f"/home/{text}".replace("\x00", "")}})
    paths = (text, f"/{text}", f"//{text}", f"D:\\{text}", f"/../{text}")
    write(log, note, said(parts=[call(str(nth), path=path) for nth, path in enumerate(paths)]))

    for link in hrefs(log, "zed", "/read/talk?at=4", f"/c/talk?at={len(log['talk'])}"):
        assert re.fullmatch(r"zed://file/[\w%/:.~-]*:1", link, re.ASCII), link
        assert not link.startswith("zed://file//")
