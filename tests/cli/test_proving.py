"""Proofs and tries: `check log --requests`, `cost --plan`, `request --without`, and more."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, UserMessage
from stenolog.adapters.conversation.log import open as open_log
from stenolog.events import Receipt
from stenolog.projections.requests.proofs import proofs
from stenolog.projections.requests.transport import Transport
from stenolog.requests import FORMATS

Cli = Callable[..., Any]


@pytest.fixture
def kept(cli: Cli) -> Cli:
    """Return the command line, in a folder whose talks.db holds a talk with two receipts."""
    with open_log("talks.db", entropy=bytes) as log:
        conversation = log["talk"]
        conversation.append(UserMessage(text="Never touch main", to=("coder",)))
        for text in ("Right.", "Done."):
            receipt = conversation.request("coder").receipt
            conversation.append(AssistantMessage(agent="coder", text=text, receipt=receipt))
            conversation.append(UserMessage(text="Go on"))
    return cli


def with_receipt(**fields: Any) -> None:
    """Append one more answer, whose receipt is another in these fields."""
    with open_log("talks.db") as log:
        good = log["talk"].request("coder").receipt
        fields = {name: getattr(good, name) for name in good.__dataclass_fields__} | fields
        log["talk"].append(AssistantMessage(agent="coder", text="?", receipt=Receipt(**fields)))


def test_every_receipt_is_proved(kept: Cli) -> None:
    ran = kept("check", "log", "--requests")

    assert (ran.status, ran.err) == (0, "")
    assert ran.out.splitlines()[-1] == "✓ 2 requests: 2 same, 0 differs, 0 not provable"


@pytest.mark.parametrize("command", ["log", "requests"])
def test_of_a_file_in_which_nothing_is_it_says_how_many_conversations_it_has(cli: Cli, command: str) -> None:
    Path("talks.db").touch()

    assert cli("check", command) == (0, "✓ 0 conversations\n", "")


def test_a_request_that_differs_is_an_error_with_its_place(kept: Cli) -> None:
    with_receipt(sha256="0" * 64, plan={"sections": {"parameters": "0", "messages": [0, ""]}})

    ran = kept("check", "log", "--requests")

    assert ran.status == 1
    assert "✗ 3 requests: 2 same, 1 differs, 0 not provable" in ran.out
    assert "'talk' at 7: the request of coder at 6 on openai-chat@1 differs: /messages/0-4" in ran.err
    assert kept("check", "log").status == 0


def test_of_many_that_differ_the_first_are_told_and_all_are_in_the_data(kept: Cli) -> None:
    for _ in range(9):
        with_receipt(sha256="0" * 64)

    ran = kept("check", "log", "--requests")

    assert ran.err.count("differs: ") == 5
    assert ran.err.splitlines()[-1] == "✗ 'talk': 4 more differ; --json lists them"
    data = kept("check", "log", "--requests", "--json").data
    assert [one["position"] for one in data["requests"]["differs"]] == [*range(7, 16)]


def test_what_is_not_provable_is_counted_by_its_reason_and_fails_only_with_strict(kept: Cli) -> None:
    with_receipt(pipeline="requests@0")
    with_receipt(pipeline="requests@0")

    ran, strict = kept("check", "log", "--requests"), kept("check", "log", "--requests", "--strict")

    assert (ran.status, strict.status) == (0, 1)
    assert "✓ 4 requests: 2 same, 0 differs, 2 not provable" in ran.out
    assert ran.err.startswith("· 'talk': 2 not provable: pipeline requests@0 is not here")
    assert strict.err.startswith("✗ 'talk': 2 not provable: pipeline requests@0 is not here")
    found = kept("check", "log", "--requests", "--json").data["requests"]
    assert (found["same"], found["differs"], len(found["not-provable"])) == (2, [], 2)


def test_the_receipts_that_a_fork_inherits_are_its_parents(kept: Cli) -> None:
    assert kept("fork", "talk", "--after", "5", "--name", "other").status == 0

    def counted(*name: str) -> int:
        requests = kept("check", "log", *name, "--requests", "--json").data["requests"]
        return int(requests["same"])

    assert (counted(), counted("other"), counted("talk")) == (2, 2, 2)


def test_an_entry_that_was_erased_leaves_what_came_after_unproved(kept: Cli) -> None:
    with open_log("talks.db") as log, log.datastore.writing() as connection:
        connection.execute("UPDATE stored_events SET state = x'', salt = x'' WHERE originator_version = 4")

    ran = kept("check", "log", "--requests", "--json")

    found = ran.data["requests"]
    assert (found["same"], found["differs"], [one["position"] for one in found["not-provable"]]) == (
        1,
        [],
        [5],
    )
    notes = [note["message"] for note in ran.envelope["diagnostics"]]
    assert "'talk': 1 not provable: the entry at 4 cannot be read any more" in notes


def test_a_request_that_needs_an_erased_entry_is_not_provable(kept: Cli) -> None:
    assert kept("erase", "talk", "4", "--yes").status == 0

    ran = kept("check", "log", "--requests", "--json")

    found = ran.data["requests"]
    assert (ran.status, found["same"], found["differs"]) == (0, 1, [])
    (reason,) = [one["reason"] for one in found["not-provable"]]
    assert reason.startswith("the entry at 4 was erased by ")


def test_answers_without_a_receipt_are_counted_by_agent_and_day_and_fail_only_with_strict(kept: Cli) -> None:
    assert kept("check", "log", "--strict").status == 0
    with open_log("talks.db", clock=lambda: datetime(2026, 3, 4, tzinfo=UTC)) as log:
        log["other"].extend(AssistantMessage(agent=agent, text="?") for agent in ("coder", "coder", "tester"))

    ran, strict = kept("check", "log"), kept("check", "log", "--strict")

    assert (ran.status, strict.status) == (0, 1)
    expected = "other@2: this answer and 1 more of coder have no receipt (2026-03-04): nothing proves"
    assert ran.err.startswith(f"· {expected}")
    assert strict.err.startswith(f"✗ {expected}")
    assert "other@4: this answer of tester has no receipt (2026-03-04)" in ran.err
    data, day = kept("check", "log", "--json").data, {"day": "2026-03-04", "conversation": "other"}
    assert data["without_receipt"] == [
        {**day, "agent": "coder", "answers": 2, "position": 2},
        {**day, "agent": "tester", "answers": 1, "position": 4},
    ]


def test_what_is_wrong_has_one_of_three_severities(kept: Cli) -> None:
    def severity() -> str:
        return str(kept("check", "log", "--requests", "--json").data["severity"])

    assert severity() == "none"
    with_receipt(pipeline="requests@0")
    assert severity() == "housekeeping"
    with_receipt(sha256="0" * 64)
    assert severity() == "integrity"


def test_a_receipt_of_bytes_sent_proves_them_and_an_older_one_the_body(kept: Cli) -> None:
    with open_log("talks.db") as log:
        body = log["talk"].request("coder").body
    transport = {"method": "POST", "add": {"stream": True}}
    sent = sha256(Transport.of(transport).render(body)).hexdigest()
    with_receipt(sent=sent, transport=transport)
    assert kept("check", "log", "--requests").status == 0
    with_receipt(sent=sent, transport=transport)

    ran = kept("check", "log", "--requests")

    assert ran.status == 1
    assert f"the bytes sent: expected sha256 {sent[:12]}…, found" in ran.err
    with open_log("talks.db") as log:
        found = [(proof.outcome, proof.covers) for proof in proofs(log["talk"].entries())]
    assert found == [("same", "body"), ("same", "body"), ("same", "sent"), ("differs", "sent")]


def test_a_transport_of_a_later_release_is_not_provable(kept: Cli) -> None:
    with_receipt(sent="0" * 64, transport={"style": "cbor"})
    with_receipt(sent="0" * 64, transport={"compression": "zstd"})

    ran = kept("check", "log", "--requests")

    assert ran.status == 0
    assert "the style 'cbor' is not known here" in ran.err
    assert "'compression' is not known here" in ran.err


def test_two_processes_say_what_one_says(kept: Cli) -> None:
    with_receipt(sha256="0" * 64)

    for command in (
        ("check", "log", "--requests"),
        ("check", "requests", "--all-prefixes", "--api", "anthropic"),
    ):
        one, two = kept(*command, "--jobs", "1"), kept(*command, "--jobs", "2")

        assert (two.status, two.out, two.err) == (one.status, one.out, one.err)
    assert kept("check", "requests", "--jobs", "0").status == 2


def test_check_requests_checks_the_apis_that_are_asked_for(kept: Cli) -> None:
    def requests(*apis: str) -> int:
        asked = [part for api in apis for part in ("--api", api)]
        return int(kept("check", "requests", "--all-prefixes", *asked, "--json").data["requests"])

    assert requests("plain") * 2 == requests("plain", "gemini") == requests() * 2 // len(FORMATS)


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (("retry", "nowhere"), 3),
        (("retry", "demo", "--all"), 2),
        (("retry", "demo", "--against", "talks.db"), 2),
        (("retry", "demo", "--policy", "mood"), 2),
        (("retry", "demo", "--model", "gpt"), 2),
        (("retry", "demo", "--agent", "nobody"), 2),
        (("cost", "--plan", "demo"), 2),
        (("cost", "--plan", "demo", "--agent", "nobody"), 2),
        (("cost", "--plan", "demo", "--agent", "coder", "--policy", "mood"), 2),
        (("cost", "--plan", "demo", "--agent", "coder", "--budget", "many"), 2),
        (("cost", "--plan", "demo", "--agent", "coder", "--prices", "bad.toml"), 2),
        (("request", "demo", "--agent", "coder", "--without", "0"), 3),
        (("request", "demo", "--agent", "coder", "--without", "4-3"), 2),
        (("request", "demo", "--agent", "coder", "--without", "99"), 3),
        (("explain", "text", "demo", "", "--agent", "coder"), 2),
        (("explain", "text", "demo", "x", "--agent", "nobody"), 2),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_refused_in_a_line(
    demo: Cli, tmp_path: Path, command: tuple[str, ...], status: int
) -> None:
    (tmp_path / "bad.toml").write_text('["gpt-*"]\ninput = "much"\n')

    ran = demo(*command)

    assert (ran.status, ran.out) == (status, "")
    assert ran.err.strip()


def test_a_budget_has_a_line_for_each_policy_and_size(demo: Cli) -> None:
    ran = demo("cost", "--plan", "demo", "--agent", "coder", "--budget", "150,16k", "--policy", "full,last:2")

    rows = [line.split()[:2] for line in ran.out.splitlines()[2:6]]
    assert rows == [["full", "150"], ["full", "16,000"], ["last:2", "150"], ["last:2", "16,000"]]


def test_prices_are_read_from_toml_and_json_in_the_place_of_the_examples(demo: Cli, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text('["*"]\ninput = 1000\noutput = 0.5\n')
    (tmp_path / "p.json").write_text('{"*": {"input": 1000, "output": 0.5}}')

    def cost(*options: str) -> Any:
        return demo("cost", "--plan", "demo", "--agent", "coder", "--json", *options).data["rows"][0]["cost"]

    assert cost("--prices", "p.toml") == cost("--prices", "p.json") > 0
    (tmp_path / "none.json").write_text("{}")
    assert cost("--prices", "none.json") is None
    assert "at your price" in demo("cost", "--plan", "demo", "--agent", "coder", "--prices", "p.toml").out


def test_the_policy_on_the_card_is_tried_where_none_is_named(demo: Cli) -> None:
    rows = demo("cost", "--plan", "demo", "--agent", "coder", "--json").data["rows"]

    assert [row["policy"] for row in rows] == [{}]


def test_what_if_shows_both_requests_and_what_differs(demo: Cli) -> None:
    ran = demo("request", "demo", "--agent", "coder", "--without", "@call:c1,4")
    data = demo("request", "demo", "--agent", "coder", "--without", "3-4", "--json").data

    assert "dropped: hidden" in ran.out
    assert data["same"] is False
    assert {run["rule"] for run in data["other"]["omissions"]} == {"hidden"}
    assert data["real"]["sha256"] == demo("request", "demo", "--agent", "coder", "--json").data["sha256"]


def test_what_if_nothing_were_otherwise_is_said(demo: Cli) -> None:
    ran = demo("request", "demo", "--agent", "coder", "--budget", "16k")

    assert ran.status == 0
    assert "nothing would have been otherwise" in ran.out


def test_a_bisection_names_the_position_and_the_rule(demo: Cli) -> None:
    gone = demo("explain", "text", "demo", "Which test", "--agent", "coder", "--policy", "last:2")

    assert "was last in the request of coder at" in gone.out
    assert "gone by   beyond-last" in gone.out
    assert "is still in" in demo("explain", "text", "demo", "Which test", "--agent", "coder").out
    assert "was never in" in demo("explain", "text", "demo", "sheep", "--agent", "coder").out
