"""No certificate is false: none is given if an agent was sent what it names; else most are."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import stenolog
from stenolog import (
    Agent,
    AgentCard,
    AssistantMessage,
    Entry,
    Event,
    LlmError,
    ModeSwitch,
    Team,
    TextPart,
    Tool,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.analysis import Certificate, certify
from stenolog.apps.views.certificates import Asked
from stenolog.apps.views.certificates import certified as certified_in
from stenolog.context import LastN, SinceLastTurn, TruncateToolOutput
from stenolog.engine import AgentTool, AutoRecall
from stenolog.errors import AgentNotFoundError, CallerError, PositionNotFoundError, StenologError
from stenolog.events import PositionRange, Unknown, WorkflowRun
from stenolog.models import Scripted
from stenolog.parts import FilePart, ImagePart
from stenolog.requests import COUNTERS, build
from stenolog.tools import recall_from
from tests.analysis.cache_break import REPLY, bodies
from tests.analysis.cache_breaks import breaks
from tests.analysis.canaries import BLOBS, CANARY, SECRET, SHA, SPY, case
from tests.engine.given import run, run_team
from tests.random_cases import seeds
from tests.recording.programs import Tap, answered
from tests.requests.given import log

ERASED = Unknown(topic="erased", payload=b"", ignorable=True)
TEAM = ModeSwitch(joins=["ann", SPY], scope="addressed", cards={SPY: AgentCard(model="gpt-5")})
TOLD = UserMessage(text=SECRET, to=["ann"])
ASKED = UserMessage(text="And what do you say?", to=[SPY])


@seeds(40, slow=1_000, nightly=10_000)
def test_no_certificate_is_false_and_most_that_could_be_given_are(seeds: range) -> None:
    given = clean = 0
    for seed in seeds:
        found, random = case(seed), Random(seed)
        end = len(found.log)
        last = random.choice((end, end, random.randint(1, end)))
        first = random.choice((0, 0, random.randint(0, last)))
        leaks = found.leaks(first, last)
        secret = found.log[found.secret - 1]
        for what in ({"never": [secret]}, {"texts": [CANARY]}):
            if "never" in what and (found.secret > last or isinstance(secret.event, Unknown)):
                continue
            certificate = certified(found.log, first=first, last=last, **what)
            assert not (certificate.is_given and leaks), (seed, what, leaks)
            given += certificate.is_given
            clean += not leaks
    assert given > clean / 2


def certified(entries: list[Entry], agent: str = SPY, **what: Any) -> Certificate:
    return certify(entries, agent, blobs=BLOBS, counters=COUNTERS, **what)


def found(*events: Event, **what: Any) -> Certificate:
    """Return the certificate about the second entry, after the spy was asked."""
    entries = log(TEAM, *events, ASKED)
    return certified(entries, **(what or {"never": [entries[1]]}))


def test_who_was_sent_nothing_of_an_entry_gets_a_certificate() -> None:
    certificate = found(TOLD)

    assert (certificate.is_given, certificate.possible, certificate.quoting) == (True, 1, ())
    assert found(TOLD, texts=[CANARY]).is_given


READ = ToolCall(id="c2", name="read_output", arguments='{"path": "@state/logs/tool-results/e2.json"}')
MANY = "\n".join(f"{n} {n * n} of so many lines, each of them long" for n in range(40))
FILE = FilePart(name="v.txt", media_type="text/plain", blob=SHA)
PATHS: dict[str, tuple[Event, ...]] = {
    "a quote": (TOLD, UserMessage(text=f"Ann was told: {CANARY}, no less", to=[SPY])),
    "JSON in JSON": (TOLD, UserMessage(text=r'{"a": "{\"b\": \"' + CANARY + r'\"}"}', to=[SPY])),
    "two parts": (TOLD, UserMessage(parts=[TextPart(text=CANARY[:9]), TextPart(text=CANARY[9:])], to=[SPY])),
    "a piece of a line": (
        UserMessage(text="x" * 500 + MANY.replace("\n", " "), to=["ann"]),
        UserMessage(text=f"It ends so: {MANY[700:760]}".replace("\n", " "), to=[SPY]),
    ),
    "a summary": (
        TOLD,
        UserMessage(text="Hello, both.", to=["ann", SPY]),
        AssistantMessage(
            agent="ann",
            purpose="summary",
            text=f"Told: {CANARY}",
            covers=[PositionRange(first=3, last=3)],
            to=["ann", SPY],
        ),
    ),
    "a brief": (TOLD, UserMessage(text=SECRET, author="ann", author_kind="agent", to=[f"{SPY}/t1"], cause=2)),
    "an edit": (TOLD, UserMessage(text="Hello", to=[SPY]), UserMessage(text=SECRET, to=[SPY], replaces=3)),
    "a hand-off": (TOLD, ModeSwitch(handoff=f"Mind: {CANARY}")),
    "instructions": (TOLD, ModeSwitch(cards={SPY: AgentCard(model="m", persona=SECRET)})),
    "a tool": (TOLD, ModeSwitch(cards={SPY: AgentCard(tools=[Tool(name="t", description=SECRET)])})),
    "a run": (TOLD, ModeSwitch(mode="run", active_run=WorkflowRun(id="r", node="n", brief=CANARY))),
    "an error": (TOLD, LlmError(agent=SPY, category="cancelled", message=CANARY, text=SECRET)),
    "a memory": (TOLD, AssistantMessage(agent=SPY, purpose="memory", text=CANARY)),
    "a file": (TOLD, UserMessage(parts=[FILE], to=[SPY])),
    "the same picture": (
        UserMessage(parts=[ImagePart(media_type="image/png", blob="0" * 64)], to=["ann"]),
        UserMessage(parts=[ImagePart(media_type="image/png", blob="0" * 64)], to=[SPY]),
    ),
    "what was recalled": (
        TOLD,
        AssistantMessage(agent=SPY, tool_calls=[ToolCall(id="c1", name="recall", arguments="{}")]),
        ToolResult(call_id="c1", text="vault", meta={"stenolog": {"recalled": [["talk", 2]]}}),
    ),
    "an output that was read": (
        ToolResult(call_id="c0", text=MANY, to=["ann"]),
        AssistantMessage(agent=SPY, tool_calls=[READ]),
        ToolResult(call_id="c2", text="9 81 of"),
    ),
    "a preview": (
        ToolResult(call_id="c0", text=MANY, to=[SPY]),
        ModeSwitch(cards={SPY: AgentCard(policy=TruncateToolOutput(over=20, head=9, tail=4))}),
    ),
}


@pytest.mark.parametrize("path", PATHS)
def test_whatever_way_it_goes_no_certificate_is_given(path: str) -> None:
    certificate = found(*PATHS[path])

    assert certificate.shown


@pytest.mark.parametrize("how", ["recall", "automatic recall", "delegate", "hand-off", "nothing"])
def test_what_an_agent_at_work_was_really_sent_is_not_certified(how: str) -> None:
    secret = f"Where the bird is: {'far away, ' * 200}and {CANARY}."
    recalls = ToolCall(id="c1", name="recall", arguments='{"query": "bird"}')
    asks = ToolCall(id="c1", name=f"ask_{SPY}", arguments=json.dumps({"task": secret}))
    hands_on = ToolCall(id="c1", name=f"transfer_to_{SPY}", arguments=json.dumps({"message": secret}))
    spy = Scripted(*[[recalls]] * (how == "recall"), "Well.")
    agents = {
        "automatic recall": [Agent(SPY, spy, recall=AutoRecall("vault"))],
        "delegate": [Agent("ann", Scripted([asks], "Done."), tools=[AgentTool(Agent(SPY, spy))])],
        "hand-off": [Agent("ann", Scripted([hands_on], "Done."), handoffs=[SPY]), Agent(SPY, spy)],
    }.get(how, [Agent(SPY, spy, tools=[recall_from("vault")])])
    with stenolog.open(":memory:") as opened:
        known, talk = opened["vault"].append(UserMessage(text=secret)), opened["talk"]
        run(run_team(Team(agents), talk, "Where is the bird?", to=[agents[0].name]))

        sent = any(secret[:60] in json.dumps(prompt.body) for prompt in spy.prompts)
        found = certified_in(talk, SPY, Asked((known,), (), 0, talk.position))
        assert spy.prompts
        assert (sent, found.is_given) == (how != "nothing", how == "nothing")


def test_what_a_request_was_sent_under_another_policy_counts() -> None:
    before = log(TEAM, replace(TOLD, to=[SPY]), ASKED)
    receipt = build(before, SPY).receipt
    hidden = ModeSwitch(cards={SPY: AgentCard(policy=LastN(1))})
    entries = log(
        TEAM, replace(TOLD, to=[SPY]), ASKED, hidden, AssistantMessage(agent=SPY, text="Ah.", receipt=receipt)
    )

    (shown,) = [one for one in certified(entries, never=[entries[1]]).shown if one.position]
    assert (shown.position, shown.view, shown.how, shown.entries) == (5, 3, "entry", (2,))


def test_what_the_backend_has_from_before_counts() -> None:
    card = AgentCard(model="m", policy=SinceLastTurn())
    events = (
        ModeSwitch(joins=[SPY], cards={SPY: card}),
        replace(TOLD, to=[SPY]),
        AssistantMessage(agent=SPY, text="Ah.", session="s1"),
        ASKED,
    )
    entries = log(*events)

    (shown,) = certified(entries, never=[entries[1]], first=4).shown
    assert (shown.view, shown.how, shown.entries) == (4, "held", (2,))


def test_only_what_was_sent_between_the_two_heads_counts() -> None:
    entries = log(TEAM, TOLD, ASKED, AssistantMessage(agent=SPY, text="Hm."), replace(TOLD, to=[SPY]))
    never = [entries[1]]

    assert certified(entries, never=never, last=4).is_given
    assert not certified(entries, never=never).is_given
    assert certified(entries, never=never, last=4).without_receipt == (4,)


def test_what_cannot_be_built_again_is_not_certified() -> None:
    receipt = replace(build(log(TEAM, TOLD, ASKED), SPY).receipt, sha256="0" * 64)
    entries = log(TEAM, TOLD, ASKED, AssistantMessage(agent=SPY, text="Hm.", receipt=receipt))
    gone = [*entries[:2], entries[2]._replace(event=ERASED), *entries[3:]]

    for case_ in (entries, gone):
        certificate = certified(case_, texts=[CANARY])
        assert not certificate.is_given
        assert certificate.unproved


def test_entries_by_those_who_were_sent_it_are_named_since_they_may_say_it_in_other_words() -> None:
    card = AgentCard(model="gpt-5")
    called = AssistantMessage(agent="ann", tool_calls=[ToolCall(id="c1", name="shell", arguments="{}")])
    entries = log(
        ModeSwitch(joins=["ann", "eve", SPY], scope="addressed", cards={SPY: card}),
        UserMessage(text="Who is it?", to=["ann", "eve", SPY]),
        AssistantMessage(agent="ann", text="No idea.", to=[SPY]),
        TOLD,
        AssistantMessage(agent="eve", text="Nor have I.", to=[SPY]),
        called,
        ToolResult(call_id="c1", text="A bird."),
        AssistantMessage(agent="ann", text="Some bird, in the morning.", to=["eve"]),
        AssistantMessage(agent="eve", text="It flies early.", to=[SPY]),
    )

    certificate = certified(entries, never=[entries[3]])

    assert (certificate.is_given, certificate.retold) == (True, (6, 9))


def test_an_erased_entry_matters_unless_a_request_proves_that_it_was_for_others() -> None:
    for to in ("ann", SPY):
        events: list[Event] = [TEAM, TOLD, UserMessage(text="By the way.", to=[to]), ASKED]
        receipt = build(log(*events), SPY).receipt
        entries = log(*events, AssistantMessage(agent=SPY, text="Hm.", receipt=receipt), ASKED)
        assert certified(entries, texts=[CANARY]).is_given
        entries[2] = entries[2]._replace(event=ERASED)

        assert certified(entries, texts=[CANARY]).is_given is (to == "ann")


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ({}, CallerError),
        ({"texts": [" "]}, CallerError),
        ({"texts": ["x"], "first": 9}, PositionNotFoundError),
        ({"texts": ["x"], "agent": "bobb"}, AgentNotFoundError),
        ({"never": log(ERASED)}, CallerError),
    ],
)
def test_a_question_that_has_no_answer_is_refused(what: dict[str, Any], error: type[StenologError]) -> None:
    with pytest.raises(error):
        certified(log(TEAM, TOLD, ASKED), **what)


@pytest.mark.parametrize(
    ("api", "fields"),
    [
        ("openai-responses", {"previous_response_id": "resp_0"}),
        ("openai-responses", {"conversation": "conv_1"}),
        ("openai-responses", {"prompt": {"id": "pmpt_1"}}),
        ("gemini", {"cachedContent": "cachedContents/1"}),
        ("anthropic", {"container": "container_1"}),
    ],
)
def test_nobody_can_say_what_was_in_contents_that_the_provider_has_kept(
    api: str, fields: dict[str, Any]
) -> None:
    for sent, is_given in (({}, True), (fields, False)):
        tap = Tap()
        body = bodies(next(one for one in breaks() if one.api == api))[0]
        entry = tap.ask(api, {**body, **sent}, answered(api, REPLY, id="resp_1", tokens=3_000))
        assert isinstance(entry.event, AssistantMessage)
        whole = tap.log[entry.conversation].entries()
        found = certify(whole, entry.event.agent, texts=["swordfish"], blobs=tap.log.blobs)

        assert found.is_given is is_given, found
