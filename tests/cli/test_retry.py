"""`retry`: recorded calls under a change, and against the digests of an earlier day."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import stenolog
from stenolog import AssistantMessage
from stenolog.adapters.conversation.log import open as open_log
from stenolog.apps.cli.commands.why import retry

Cli = Callable[..., Any]


def test_under_a_policy_every_call_says_what_it_would_lack(demo: Cli) -> None:
    ran = demo("retry", "demo", "--policy", "last:3", "--json")

    assert (ran.status, ran.data["change"]) == (1, "policy last:3")
    assert ran.data["same"] + len(ran.data["changed"]) == ran.data["calls"]
    assert all(one["gone"] or one["added"] for one in ran.data["changed"])
    assert ran.data["tokens"]["now"] < ran.data["tokens"]["then"]


def test_a_card_is_for_one_agent_and_written_as_in_a_team_file(demo: Cli) -> None:
    Path("card.toml").write_text('persona = "You are a poet."\nparameters = { temperature = 0.5 }\n')
    several = demo("retry", "demo", "--card", "card.toml")
    ran = demo("retry", "demo", "--card", "card.toml", "--agent", "coder", "--json")

    assert (several.status, "expected --agent with a card, one of coder, " in several.err) == (2, True)
    assert {one["lane"] for one in ran.data["changed"]} == {"coder"}
    assert {one["found"] for one in ran.data["changed"]} == {'"You are a poet."'}
    for given in ('{"limits": {}}', "{}", "[]", "{", '{"persona": 1}'):
        Path("card.json").write_text(given)
        assert demo("retry", "demo", "--card", "card.json", "--agent", "coder").status == 2


def test_another_model_is_asked_over_its_own_api(demo: Cli) -> None:
    demo("retry", "demo", "--agent", "coder", "--model", "anthropic:claude-haiku-4-5", "-o", "there.jsonl")
    demo("retry", "demo", "--agent", "coder", "-o", "here.jsonl")
    there, here = (Path(f"{each}.jsonl").read_text().splitlines()[1:] for each in ("there", "here"))

    assert len(there) == len(here) > 0
    assert all("system" in json.loads(each)["sections"] for each in there)
    assert not any("system" in json.loads(each)["sections"] for each in here)


def test_a_sample_is_the_same_each_time_and_of_all_conversations(demo: Cli) -> None:
    demo("fork", "demo", "--after", "12")
    once, again = (demo("retry", "--all", "--policy", "last:1", "--sample", "7", "--json") for _ in "ab")

    assert once.data == again.data
    assert once.data["calls"] == 7


def test_one_bar_tells_how_far_it_is_over_all_conversations(
    demo: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo("fork", "demo", "--after", "6")
    bars: list[str] = []

    def progress(items: Iterable[Any], label: str, total: int | None = None) -> Iterable[Any]:
        bars.append(label)
        return items

    monkeypatch.setattr(retry, "progress", progress)

    assert demo("retry", "--all", "-o", "then.jsonl").status == 0
    assert bars == ["building requests"]


def test_digests_that_were_written_stay_the_same_while_the_code_is(demo: Cli) -> None:
    written = demo("retry", "--all", "-o", "then.jsonl")
    again = demo("retry", "--all", "--against", "then.jsonl", "-o", "now.jsonl")
    number = len(Path("then.jsonl").read_text().splitlines()) - 1

    assert written.out == f"✓ {number} calls: the same requests, written to then.jsonl\n"
    assert again.out == f"✓ {number} calls: the same requests, written to now.jsonl\n"
    assert Path("now.jsonl").read_text() == Path("then.jsonl").read_text()
    assert not Path("then.jsonl.part").exists()
    first, second, *_ = demo("retry", "--all", "-o", "-", "--json").out.splitlines()
    assert json.loads(first)["data"]["form"] == "stenolog-retry@1"
    assert json.loads(second)["data"]["conversation"] == "demo"


def test_what_would_change_vanish_or_be_new_is_listed_and_fails(demo: Cli) -> None:
    demo("retry", "demo", "-o", "then.jsonl")
    header, first, second, *rest = Path("then.jsonl").read_text().splitlines()
    changed = json.loads(first) | {"sha256": "0" * 64}
    changed["sections"] |= {"parameters": "0"}
    elsewhere = json.dumps(json.loads(rest[-1]) | {"position": 99})
    Path("then.jsonl").write_text("\n".join([header, json.dumps(changed), *rest, elsewhere]) + "\n")

    ran = demo("retry", "demo", "--against", "then.jsonl")

    assert ran.status == 1
    assert ran.out.splitlines()[0].startswith(f"changed  demo at {changed['position']}  coder  /")
    assert f"vanished demo at 99  {json.loads(rest[-1])['lane']}" in ran.out
    assert f"new      demo at {json.loads(second)['position']}" in ran.out
    found = demo("retry", "demo", "--against", "then.jsonl", "--format", "github").out.splitlines()
    titles = [row.partition("::'demo' at")[0].removeprefix("::error file=talks.db,title=") for row in found]
    assert titles == ["changed", "vanished", "1 checked: 2 errors, 1 note"]
    data = demo("retry", "demo", "--against", "then.jsonl", "--json").data
    assert [len(data[what]) for what in ("changed", "vanished", "new")] == [1, 1, 1]


def test_what_is_only_new_does_not_fail(demo: Cli) -> None:
    demo("retry", "--all", "-o", "then.jsonl")
    with open_log("talks.db") as log:
        log["demo"].append(AssistantMessage(agent="coder", text="Well."))

    ran = demo("retry", "--all", "--against", "then.jsonl", "-o", "then.jsonl")

    assert (ran.status, "1 new" in ran.out) == (0, True)
    assert "the same requests" in demo("retry", "--all", "--against", "then.jsonl").out


def test_the_change_of_the_file_is_the_change_that_is_tried(demo: Cli) -> None:
    demo("retry", "demo", "-o", "then.jsonl", "--policy", "last:2")

    assert demo("retry", "demo", "--against", "then.jsonl", "--policy", "last:2").status == 0
    other = demo("retry", "demo", "--against", "then.jsonl")
    assert (other.status, "expected the change of the file (policy last:2)" in other.err) == (2, True)


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write two scripts of a model: one calls the tool of the demo's first call, one never calls any."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    call = {"type": "tool_call", "name": "shell", "arguments": {"cmd": "pytest -q"}}
    Path("calls.json").write_text(json.dumps({"turns": [[call]], "endless": True}))
    Path("says.json").write_text(json.dumps({"turns": ["Done."], "endless": True}))


CODER = ("retry", "demo", "--agent", "coder", "--ask", "8")
THROUGH = (*CODER, "--through", "scripted:says.json")


def test_the_price_is_told_before_anything_is_asked(demo: Cli, scripts: None) -> None:
    for given, why in (
        ((), "expected --budget USD, found none; 24 calls: about $0"),
        (("--budget", "0.5"), "--budget: expected at least 1."),
        (("--budget", "99"), "cannot ask for confirmation here: add --yes; 24 calls: about $0"),
        (("--budget", "99", "--yes"), "expected a key in the environment variable OPENAI_API_KEY"),
        (("--against", "x"), "--ask: expected neither --output nor --against"),
        (("--judge", "nobody"), "expected module:function, found 'nobody'"),
    ):
        ran = demo(*CODER, *given)
        assert ran.status == 2
        assert why in ran.err
    assert not [*Path().rglob("*.answers.db")]


def test_calls_are_asked_again_and_what_was_answered_is_kept(demo: Cli, scripts: None) -> None:
    again = demo(*THROUGH, "--json")
    worse = demo(*THROUGH, "--model", "scripted:calls.json", "--json")
    junit = demo(*THROUGH, "--model", "scripted:calls.json", "--format", "junit")
    same = demo(*THROUGH, "--policy", "last:20", "--json")

    assert (again.status, again.data["verdict"], again.data["micro_usd"]) == (0, None, 0)
    recorded = again.data["as_recorded"]
    calls = {one["position"]: one["as_recorded"]["passed"] for one in again.data["calls"]}
    assert recorded["of"] == 8 * len(calls)
    assert recorded["passed"] == sum(calls.values())
    assert {*calls.values()} == {0, 8}, "it never calls a tool, so it passes if none was called"
    assert (worse.status, worse.data["verdict"]) == (1, "regressed")
    assert worse.data["by_tool"]["no tool"]["now"]["passed"] == 0
    assert "regressed" in junit.out
    assert (same.status, same.data["verdict"]) == (0, "no difference found")
    assert same.data["unaltered"] + len(same.data["calls"]) == len(calls)
    with open_log(next(Path().rglob("*.answers.db"))) as log:
        numbers = [sum(isinstance(each.event, AssistantMessage) for each in log[name]) for name in log]
    assert {*numbers} == {8}, "no answer was asked for a second time"
    with (
        open_log("talks.db") as log,
        TestClient(stenolog.inspector(log, token=""), base_url="http://127.0.0.1") as web,
    ):
        page = web.get("/retry/demo?agent=coder").text
    assert "Asked again" in page
    assert f"of {recorded['of']} answers pass again" in page
