"""The page of a request: each part with its source, rule and cache; the bytes; the bill; what is folded."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

from starlette.testclient import TestClient

import stenolog
from stenolog import AssistantMessage, LlmError, TextPart, Tool, ToolCall, ToolResult, UserMessage
from stenolog.context import LastN
from stenolog.events import Origin, Usage

from .words import words

CHECK = Tool(name="check", description="Run the tests.", parameters={"type": "object", "properties": {}})


def talk(log: stenolog.Log) -> stenolog.Conversation:
    """Return a conversation in which coder was called three times: at 2, 4 (in vain) and 6."""
    made = log["talk"]
    made.join("coder", model="gpt-5.2", persona="You mend what is broken.", tools=[CHECK])
    made.append(UserMessage("Which test fails?", to=["coder"]))
    call = ToolCall(id="c1", name="check", arguments="{}")
    used = Usage(input=812, output=31, cache_read=40)
    made.append(AssistantMessage(agent="coder", parts=[call], model="gpt-5.2", usage=used))
    made.append(ToolResult(call_id="c1", text="1 failed"))
    made.append(LlmError(agent="coder", category="timeout", message="no token"))
    made.append(UserMessage("continue", to=["coder"]))
    made.append(AssistantMessage(agent="coder", parts=[TextPart(text="test_dates fails.")], usage=used))
    return made


def long_talk(log: stenolog.Log, turns: int) -> None:
    made = log["long"]
    made.join("coder", model="gpt-5.2", persona="You mend what is broken.")
    said = [UserMessage(f"question {n}", to=["coder"]) for n in range(turns)]
    told = [AssistantMessage(agent="coder", parts=[TextPart(text=f"answer {n}")]) for n in range(turns)]
    made.extend([each for pair in zip(said, told, strict=True) for each in pair])


class Nodes(HTMLParser):
    """The number of elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Count it."""
        self.number += 1


def nodes(page: str) -> int:
    counting = Nodes()
    counting.feed(page)
    return counting.number


def test_a_part_leads_to_its_entry_and_says_its_rule_its_reason_and_its_tokens(
    web: TestClient, log: stenolog.Log
) -> None:
    talk(log)
    page = web.get("/request/talk?at=2&agent=coder").text
    assert 'href="/c/talk?at=2&amp;agent=coder#p2"' in page
    assert 'href="/entry/talk?at=2&amp;agent=coder"' in page
    assert "the user's words, as they are kept by rule user 5 tokens Which test fails?" in words(page)


def test_what_the_call_before_began_with_too_may_be_read_from_the_cache(
    web: TestClient, log: stenolog.Log
) -> None:
    talk(log)
    shown = words(web.get("/request/talk?at=4&agent=coder").text)
    before, border, after = shown.partition("Up to here it is the same as the call at entry 2")
    assert border
    assert before.count("as at 2") == 2  # the prompt and the question
    assert after.count("as at 2") == 1  # the tools, which stand before them for a provider


def test_a_changed_prompt_leaves_nothing_that_the_cache_knows(web: TestClient, log: stenolog.Log) -> None:
    made = talk(log)
    made.join("coder", model="gpt-5.2", persona="You write tests.", tools=[CHECK])
    made.append(UserMessage("go on", to=["coder"]))
    shown = words(web.get("/request/talk?agent=coder").text)
    assert "as at" not in shown
    assert "it is the same" not in shown


def test_without_a_position_the_last_request_that_was_sent_is_shown(
    web: TestClient, log: stenolog.Log
) -> None:
    made = talk(log)
    shown = words(web.get("/request/talk").text)
    assert "Not sent" not in shown
    assert "What coder is sent at entry 6 " in shown
    assert "Answered at entry 7" in shown
    assert "Not sent: nothing to answer" in words(web.get("/request/talk?at=7").text)
    made.append(UserMessage("And now?", to=["coder"]))
    assert "What coder is sent at entry 8 " in words(web.get("/request/talk").text)


def test_the_answer_stands_below_with_what_was_billed(web: TestClient, log: stenolog.Log) -> None:
    talk(log)
    shown = words(web.get("/request/talk?at=2&agent=coder").text)
    assert shown.endswith(
        "Answered at entry 3 by gpt-5.2, billed 812 in, 40 of them read from the cache, 31 out"
    )
    assert "Failed at entry 5 : timeout: no token" in words(web.get("/request/talk?at=4&agent=coder").text)


def test_a_request_that_cannot_be_sent_says_why_and_where(web: TestClient, log: stenolog.Log) -> None:
    talk(log)
    page = web.get("/request/talk?at=3&agent=coder").text
    assert "Not sent: 1 of its calls has no result yet · see 3" in words(page)


def test_tools_and_parameters_are_shown(web: TestClient, log: stenolog.Log) -> None:
    talk(log)
    shown = words(web.get("/request/talk?at=2&agent=coder").text)
    total, _, tool = shown.partition("1 tool · ")[2].partition(" tokens check ")
    size, _, said = tool.partition(" tokens ")
    assert int(total) == int(size) > 0
    assert said.startswith("Run the tests. {")
    assert '1 parameter model "gpt-5.2"' in shown


def test_the_raw_form_is_the_body_byte_by_byte_and_each_range_leads_to_its_part(
    web: TestClient, log: stenolog.Log
) -> None:
    made = talk(log)
    page = web.get("/request/talk?at=6&agent=coder&form=raw").text
    [body] = re.findall(r'(?s)<pre class="bytes">(.*?)</pre>', page)
    assert unescape(re.sub(r"<[^>]+>", "", body)).encode() == made.request("coder", 6).bytes
    targets = re.findall(r'#part-(\d+)"', body)
    read = web.get("/request/talk?at=6&agent=coder").text
    assert targets
    assert all(f'id="part-{each}"' in read for each in targets)


def test_the_copy_as_json_is_the_very_bytes(web: TestClient, log: stenolog.Log) -> None:
    made = talk(log)
    answer = web.get("/copy/talk?at=6&agent=coder&as=json")
    assert answer.content == made.request("coder", 6).bytes
    assert answer.headers["content-disposition"] == (
        "attachment; filename=\"talk-coder-6.json\"; filename*=UTF-8''talk-coder-6.json"
    )
    assert web.get("/copy/talk?as=yaml").status_code == 400


def test_the_other_copies_are_what_export_writes(web: TestClient, log: stenolog.Log) -> None:
    made = talk(log)
    for form, name in (
        ("curl", "talk-coder-6.sh"),
        ("python", "talk-coder-6.py"),
        ("pytest", "test_talk-coder-6.py"),
    ):
        answer = web.get(f"/copy/talk?at=6&agent=coder&as={form}")
        assert answer.text == made.export(form, agent="coder", at=6)
        assert answer.headers["content-disposition"].endswith(f"; filename*=UTF-8''{name}")
        assert f"&amp;as={form}" in web.get("/request/talk?at=6&agent=coder").text
    assert web.get("/copy/talk?at=6&agent=coder&as=html").status_code == 400


def test_a_request_that_might_be_is_copied_as_a_call_and_not_as_a_test(
    web: TestClient, log: stenolog.Log
) -> None:
    made = talk(log)
    real = made.export("curl", agent="coder", at=6)
    for form in ("curl", "python"):
        answer = web.get(f"/copy/talk?at=6&agent=coder&without=2&as={form}")
        assert answer.status_code == 200
        assert answer.text != real
    refused = web.get("/copy/talk?at=6&agent=coder&without=2&as=pytest")
    assert refused.status_code == 400
    assert "expected a request of the log as it is" in refused.text


def test_a_request_of_thousands_of_parts_is_folded_and_each_part_has_an_address(
    web: TestClient, log: stenolog.Log
) -> None:
    long_talk(log, 1_500)
    page = web.get("/request/long?at=3001&agent=coder")
    assert nodes(page.text) < 2_000
    assert "question 0" in page.text
    assert "answer 1499" in page.text
    assert "question 700" not in page.text
    assert "Parts 81 to 2,922 are not shown here" in words(page.text)
    middle = web.get("/request/long?at=3001&agent=coder&from=1400").text
    assert "question 700" in middle
    assert nodes(middle) < 2_000
    assert nodes(web.get("/request/long?agent=coder&form=raw").text) < 2_000
    assert nodes(web.get("/c/long?agent=coder").text) < 2_000


def test_a_long_request_has_an_outline_whose_links_lead_to_its_turns(
    web: TestClient, log: stenolog.Log
) -> None:
    long_talk(log, 1_500)
    page = web.get("/request/long?agent=coder").text
    links = re.findall(r'<a href="([^"]*)#part-(\d+)"><span class="words">(.*?)</span>', page)
    assert 50 < len(links) <= 100
    for address, number, said in (links[1], links[50], links[-1]):
        there = web.get(unescape(address)).text if address else page
        assert said in words(there.partition(f'id="part-{number}"')[2][:2_000])
    sums = [int(each.replace(",", "")) for each in re.findall(r'</span> <span class="number">([\d,]+)', page)]
    assert sum(sums) > 1_500
    assert 'class="outline"' not in web.get("/request/talk?agent=coder").text


def test_tabs_that_lead_to_nothing_are_not_there(web: TestClient, log: stenolog.Log) -> None:
    log["nobody"].append(UserMessage("Is anybody there?"))
    page = web.get("/read/nobody").text
    assert re.findall(r'data-screen="(\w+)"', page) == ["read", "c", "proof"]


def test_a_long_text_is_cut_and_leads_to_the_whole(web: TestClient, log: stenolog.Log) -> None:
    made = talk(log)
    long = "word " * 2_000_000
    made.append(UserMessage(long, to=["coder"]))
    page = web.get("/request/talk?agent=coder").text
    assert len(page) < 100_000
    [address] = re.findall(r'href="(/text/[^"]+)"', page)
    whole = web.get(unescape(address))
    assert whole.text == long
    assert whole.headers["content-type"] == "text/plain; charset=utf-8"
    beyond = web.get("/text/talk?agent=coder&part=99")
    assert beyond.status_code == 404
    assert "part: expected a number below 8, found 99" in beyond.text
    assert len(web.get("/request/talk?agent=coder&form=raw").text) < 100_000


def test_neighbouring_omissions_are_one_line_at_their_place(web: TestClient, log: stenolog.Log) -> None:
    made = talk(log)
    made.join("coder", policy=LastN(1))
    made.append(UserMessage("And now?", to=["coder"]))
    page = web.get("/request/talk?agent=coder").text
    assert len(re.findall(r'<li class="part left-out">', page)) == 1
    shown = words(page)
    assert shown.index("You mend") < shown.index("left out: ") < shown.index("And now?")
    assert "it is older than the last messages" in shown


def test_what_the_log_cannot_know_stands_at_the_head(web: TestClient, log: stenolog.Log) -> None:
    made = log["session"]
    made.append(UserMessage("Which test fails?"))
    used, source = Usage(input=35_000, output=31), Origin(system="claude-code")
    made.append(AssistantMessage(agent="claude", parts=[TextPart(text="x")], usage=used, source=source))
    shown = words(web.get("/request/session?at=2").text)
    assert "Not known from this log. The answers came from claude-code" in shown
    assert "billed, but not in this log: some 35,000 tokens." in shown
    part = "billed, but not in this log 34,991 tokens: billed 35,000, rebuilt 9"
    words_of_it = "34,991 from the start: what came before this file, system prompt, tools: not recorded"
    assert f"{part} {words_of_it}" in shown
    later = words(web.get("/request/session?at=3").text)
    assert f"{part}, for the request at entry 2 {words_of_it}" in later
    entry = words(web.get("/entry/session?at=3").text)
    assert f"billed 35,000 tokens, rebuilt 9. Not in this log: {words_of_it}." in entry


def test_a_conversation_without_an_agent_is_shown_and_has_no_request(
    web: TestClient, log: stenolog.Log
) -> None:
    log["quiet"].append(UserMessage("Is anybody there?"))
    for path in ("/c/quiet", "/panel/quiet", "/request/quiet", "/proof/quiet"):
        assert web.get(path).status_code == 200, path
    assert "No agent has a request here." in words(web.get("/request/quiet").text)
