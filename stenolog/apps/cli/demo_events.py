"""The demo's conversation: three agents mend a flaky parser, and everything happens to them that does.

The first twelve entries are a small story of their own, with which the documentation begins.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from stenolog.domain.card import AgentCard
from stenolog.domain.events import AssistantMessage, Event, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.parts import ToolCall
from stenolog.domain.policy import Budget, SummaryAndRecent, TruncateToolOutput
from stenolog.domain.values import Control, PositionRange, Tool, Usage

BEGUN = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
STEP = timedelta(seconds=20)
"""The time between two entries."""
SHELL = Tool(
    name="shell",
    description="Run a command.",
    parameters={"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]},
)
CODER = AgentCard(
    model="gpt-5.2",
    provider="openai",
    persona="You are coder. You mend what is broken.",
    tools=(SHELL,),
)
REVIEWER = AgentCard(
    model="claude-opus-5",
    provider="anthropic",
    persona="You are reviewer. You read what others changed.",
    tools=(),
)
PLANNER = AgentCard(
    model="gemini-2.5-pro",
    provider="google",
    persona="You are planner. You find out what is to do, and who does it.",
    tools=(SHELL,),
    policy=TruncateToolOutput(over=120, head=60, tail=30),
)

BEGINNING: tuple[Event, ...] = (
    ModeSwitch(
        mode="chat",
        title="the flaky parser",
        joins=("coder", "reviewer"),
        cards={"coder": CODER, "reviewer": REVIEWER},
    ),
    UserMessage(text="Which test fails, and why?", to=("coder",)),
    AssistantMessage(
        agent="coder",
        cause=2,
        text="I'll run them.",
        tool_calls=[ToolCall(id="c1", name="shell", arguments='{"cmd": "pytest -q"}')],
        usage=Usage(input=64, output=22, cost=420),
    ),
    ToolResult(call_id="c1", name="shell", text="FAILED test_dates: 23:00 != 00:00\n1 failed", is_error=True),
    LlmError(
        agent="coder",
        cause=4,
        category="timeout",
        message="no token for 60 s",
        text="test_dates fails: the parser reads",
    ),
    UserMessage(text="continue", to=("coder",), control=Control(action="continue", agent="coder")),
    AssistantMessage(
        agent="coder",
        cause=6,
        text="it as local time. I read it as UTC now.",
        tool_calls=[ToolCall(id="c2", name="shell", arguments='{"cmd": "git diff && pytest -q"}')],
        usage=Usage(input=114, output=40, cost=760),
    ),
    ToolResult(call_id="c2", name="shell", text="-  parse(text)\n+  parse(text, tz=UTC)\n12 passed"),
    AssistantMessage(
        agent="coder",
        cause=8,
        text="Mended. @reviewer, please look.",
        to=("reviewer",),
        usage=Usage(input=146, output=14, cache_read=112, cost=275),
    ),
    ModeSwitch(mode="agent"),
    AssistantMessage(
        agent="reviewer",
        cause=9,
        text="Good: one line, and it says what it means.",
        usage=Usage(input=206, output=14, cost=1_380),
    ),
    UserMessage(text="Then merge it, please.", to=("coder",)),
)

FOUND = """\
src/cron.py:12:    due = parse(line.split()[0])
src/mail.py:88:    sent = parse(message["Date"])
src/report.py:41:    day = parse(row.created)
src/parser.py:7:def parse(text, tz=UTC):
tests/test_cron.py:9:    assert parse("09:00") == NINE
tests/test_cron.py:15:    assert parse("23:59") == LATE
tests/test_mail.py:21:    assert parse(MAIL["Date"]) == SENT
tests/test_mail.py:30:    assert parse(REPLY["Date"]) == REPLIED
tests/test_report.py:14:    assert parse("2026-03-29") == SPRING
tests/test_report.py:19:    assert parse("2026-10-25") == AUTUMN
vendor/feed/entry.py:102:        return parse(self.updated)
vendor/feed/entry.py:131:        return parse(self.published)
12 lines, 3 of them ours and without a zone"""
TRACE = """\
Traceback (most recent call last):
  File "tests/test_mail.py", line 44, in test_no_date
    assert order([UNDATED, MAIL]) == [MAIL, UNDATED]
  File "src/mail.py", line 88, in order
    sent = parse(message["Date"], tz=UTC)
  File "src/parser.py", line 9, in parse
    hours, minutes = text.split(":")
AttributeError: 'NoneType' object has no attribute 'split'
1 failed, 6 passed"""
CHANGED = """\
 src/mail.py        | 4 +++-
 src/report.py      | 2 +-
 tests/test_mail.py | 6 ++++++
7 passed"""


def _shell(id: str, cmd: str) -> ToolCall:
    return ToolCall(id=id, name="shell", arguments=f'{{"cmd": "{cmd}"}}')


_coder = partial(AssistantMessage, agent="coder", model="gpt-5.2")
_planner = partial(AssistantMessage, agent="planner", model="gemini-2.5-pro")

GOING_ON: tuple[Event, ...] = (
    _coder(
        cause=12,
        tool_calls=[_shell("c3", "git merge --ff-only dates")],
        usage=Usage(input=184, output=24, cache_read=128, cost=456),
        duration_ms=2_100,
    ),
    ToolResult(
        call_id="c3", name="shell", text="Fast-forward\n parser.py | 2 +-\n1 file changed", duration_ms=340
    ),
    _coder(
        cause=14,
        text="Merged: main reads dates as UTC now.",
        usage=Usage(input=208, output=12, cache_read=176, cost=255),
        duration_ms=1_400,
    ),
    ModeSwitch(
        joins=("planner",),
        cards={
            "planner": PLANNER,
            "coder": replace(CODER, policy=SummaryAndRecent(40) | Budget(tokens=930)),
        },
    ),
    UserMessage(text="Where else do we read times? Make a plan, please.", to=("planner",)),
    _planner(
        cause=17,
        tool_calls=[_shell("p1", "grep -rn 'parse(' .")],
        usage=Usage(input=371, output=31, cost=774),
        duration_ms=3_200,
    ),
    ToolResult(call_id="p1", name="shell", text=FOUND, duration_ms=90),
    LlmError(
        agent="planner",
        cause=19,
        category="rate_limited",
        message="429: too many requests; try again in 15 s",
        model="gemini-2.5-pro",
        retry_at=BEGUN + 19 * STEP + timedelta(seconds=15),
        duration_ms=180,
    ),
    _planner(
        cause=19,
        text="Three places read a time without its zone: report.py:41, mail.py:88 and cron.py:12.\n"
        "@coder, mend them one by one, and run the tests after each.",
        to=("coder",),
        usage=Usage(input=512, output=48, cache_read=352, cost=724),
        duration_ms=4_800,
    ),
    _coder(
        cause=21,
        text="report.py and mail.py first.",
        tool_calls=[
            _shell(
                "c4", "sed -i s/created)/created,tz=UTC)/ src/report.py && pytest -q tests/test_report.py"
            ),
            _shell("c5", "sed -i s/Date.])/Date.],tz=UTC)/ src/mail.py && pytest -q tests/test_mail.py"),
        ],
        usage=Usage(input=507, output=86, cache_read=192, cost=1_789),
        duration_ms=5_600,
    ),
    ToolResult(call_id="c4", name="shell", text="5 passed", duration_ms=1_900),
    ToolResult(call_id="c5", name="shell", text=TRACE, is_error=True, duration_ms=2_300),
    _coder(
        cause=24,
        text="A mail without a date has no time at all. I leave it None.",
        tool_calls=[_shell("c6", "git apply none.patch && pytest -q tests/test_mail.py && git diff --stat")],
        usage=Usage(input=223, output=61, cost=1_244),
        duration_ms=4_100,
    ),
    ToolResult(call_id="c6", name="shell", text=CHANGED, duration_ms=2_000),
    _coder(
        cause=26,
        tool_calls=[_shell("c7", "sed -i s/[0])/[0],tz=UTC)/ src/cron.py && pytest -q")],
        usage=Usage(input=288, output=44, cache_read=208, cost=792),
        duration_ms=2_900,
    ),
    ToolResult(call_id="c7", name="shell", text="40 passed", duration_ms=11_800),
    _coder(
        cause=28,
        text="All three are mended. @reviewer, please look at mail.py.",
        to=("reviewer",),
        usage=Usage(input=309, output=19, cache_read=272, cost=378),
        duration_ms=1_700,
    ),
    AssistantMessage(
        agent="reviewer",
        cause=29,
        text="report.py and cron.py are right. In mail.py None comes first when mails are put in order. "
        "@coder, put it last.",
        to=("coder",),
        model="claude-opus-5",
        usage=Usage(input=955, output=52, cost=6_075),
        duration_ms=6_300,
    ),
    AssistantMessage(
        agent="coder",
        cause=30,
        purpose="summary",
        covers=(PositionRange(first=2, last=21),),
        text="test_dates failed because parse() read local time. It reads UTC now, reviewed and merged. "
        "planner found three more places: report.py, mail.py, cron.py.",
        model="gpt-5-mini",
        usage=Usage(input=560, output=58, cost=256),
        duration_ms=2_200,
    ),
    ModeSwitch(mode="run"),
    _coder(
        cause=30,
        tool_calls=[_shell("c8", "git apply last.patch && pytest -q")],
        usage=Usage(input=401, output=37, cost=1_220),
        duration_ms=3_000,
    ),
    ToolResult(call_id="c8", name="shell", text="41 passed", duration_ms=12_100),
    _coder(
        cause=34,
        text="Done: a mail without a date comes last.",
        usage=Usage(input=418, output=14, cache_read=384, cost=323),
        duration_ms=1_300,
    ),
    UserMessage(text="Thanks! What did we change in all?", to=("coder",)),
)
FORKED_AFTER = 21
OTHER_WAY: tuple[Event, ...] = (
    UserMessage(text="Only report.py today; leave the others.", to=("coder",)),
    _coder(
        cause=FORKED_AFTER + 2,
        tool_calls=[
            _shell("f1", "sed -i s/created)/created,tz=UTC)/ src/report.py && pytest -q tests/test_report.py")
        ],
        usage=Usage(input=520, output=45, cache_read=496, cost=759),
        duration_ms=3_100,
    ),
    ToolResult(call_id="f1", name="shell", text="5 passed", duration_ms=1_900),
    _coder(
        cause=FORKED_AFTER + 4,
        text="report.py reads UTC now. mail.py and cron.py are as they were.",
        usage=Usage(input=549, output=21, cache_read=512, cost=448),
        duration_ms=1_500,
    ),
)
"""The entries of the fork after its opening: the same plan, another wish."""
