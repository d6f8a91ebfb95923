"""Versions of recorded programs' prompts and tools: what a release changed, and what makes no version."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from stenolog.projections.analysis.drift import RoleDrift, drift, masked
from tests.recording.programs import BEGIN, BODIES, Tap, answered, tool, turns

PROMPT = """\
You are Claude Code.
Working directory: {path}
Today's date is {date}.
Always run the tests.
Never guess a name.
Prefer small changes.
{more}
gitStatus: this is the status of {date}
 M {path}/main.py
commit {hash}
"""


def prompt(
    more: str = "", path: str = "/home/user/shop", date: str = "2026-01-05", hash: str = "4f1c9d2"
) -> str:
    return PROMPT.format(more=more, path=path, date=date, hash=hash)


def ask(
    tap: Tap, text: str, tools: list[Any], *, session: str, client: str = "claude-cli/2.1.0", **given: Any
) -> None:
    """Record a request of Claude Code with a system prompt and tools."""
    head = {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1.{session};"}
    body = BODIES["anthropic"](turns("anthropic", [f"Question of {session}?"]))
    body |= {"system": [head, {"type": "text", "text": text}], "tools": tools}
    tap.ask("anthropic", body, answered("anthropic", "ok"), session=session, client=client, **given)


def found(tap: Tap, client: str = "") -> list[RoleDrift]:
    return drift([(name, tap.log[name].entries()) for name in tap.log.names()], client)


BASH, READ = tool("anthropic", "Bash", "Runs a command."), tool("anthropic", "Read", "Reads a file.")


def test_dates_paths_hashes_and_status_make_no_version() -> None:
    tap = Tap()
    ask(tap, prompt(), [BASH, READ], session="s1")
    ask(tap, prompt(path="/srv/other", date="2026-02-11", hash="aa0b1c2d3e"), [BASH, READ], session="s2")
    [role] = found(tap)
    [version] = role.versions

    assert (role.client, role.role, role.begins) == ("claude", "main", "You are Claude Code.")
    assert (version.requests, version.conversations) == (2, 2)
    assert version.last - version.first >= timedelta(seconds=10)
    assert role.changes == ()


def test_a_release_that_changed_words_and_tools_is_told_with_its_difference() -> None:
    tap = Tap()
    ask(tap, prompt("Be brief."), [BASH, READ], session="s1")
    slower = tool(
        "anthropic", "Bash", "Runs a command, slowly.", path={"type": "string"}, wait={"type": "integer"}
    )
    ask(
        tap,
        prompt("Be very brief."),
        [slower, tool("anthropic", "Grep")],
        session="s2",
        client="claude-cli/2.2.0",
    )
    [role] = found(tap)
    [change] = role.changes
    [bash] = change.changed

    assert [version.programs for version in role.versions] == [("claude-cli/2.1.0",), ("claude-cli/2.2.0",)]
    assert [(span.sign, span.text.strip()) for span in change.prompt if span.sign != "="] == [("+", "very")]
    assert (change.added, change.removed) == (("Grep",), ("Read",))
    assert (bash.name, [span.text for span in bash.description if span.sign == "+"]) == ("Bash", [", slowly"])
    assert bash.schema == ("+ /properties/wait",)
    assert change.time == role.versions[1].first


def test_a_version_that_comes_again_is_the_same_one() -> None:
    tap = Tap()
    for session, words in (("s1", "one"), ("s2", "two"), ("s3", "one")):
        ask(tap, prompt(words), [BASH], session=session)
    [role] = found(tap)

    assert [version.requests for version in role.versions] == [2, 1]


def test_an_agent_with_another_prompt_is_another_role() -> None:
    tap = Tap()
    ask(tap, prompt(), [BASH], session="s1")
    searcher = "You are a searcher.\nFind files.\nSay where they are."
    ask(tap, searcher, [READ], session="s1", headers={"x-claude-code-agent-id": "a1"})
    ask(
        tap,
        "You plan.\nWrite a plan.\nNo code.",
        [READ],
        session="s1",
        headers={"x-claude-code-agent-id": "a2"},
    )
    roles = found(tap)

    assert [(role.role, role.begins) for role in roles] == [
        ("main", "You are Claude Code."),
        ("sub-agent", "You are a searcher."),
        ("sub-agent", "You plan."),
    ]
    assert all(len(role.versions) == 1 for role in roles)


def test_tools_of_the_users_own_servers_make_no_version() -> None:
    tap = Tap()
    ask(tap, prompt(), [BASH], session="s1")
    ask(tap, prompt(), [BASH, tool("anthropic", "mcp__jira__find")], session="s2")

    assert [len(role.versions) for role in found(tap)] == [1]


def test_a_program_without_instructions_is_known_by_what_it_says_first() -> None:
    tap = Tap()
    for session, words in (("s1", "You are Codex. Be brief."), ("s2", "You are Codex. Be very brief.")):
        body = BODIES["openai-responses"](turns("openai-responses", ["Hello?"]))
        del body["instructions"]
        opening = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": words}]}
        body["input"] = [opening, *body["input"]]
        tap.ask("openai-responses", body, answered("openai-responses", "ok"), session=session)
    roles = found(tap, "codex")

    assert [version.prompt for role in roles for version in role.versions] == [
        "You are Codex. Be brief.",
        "You are Codex. Be very brief.",
    ]


def test_only_the_program_that_is_asked_for_is_told() -> None:
    tap = Tap()
    ask(tap, prompt(), [BASH], session="s1")

    assert found(tap, "codex") == []
    assert [role.client for role in found(tap, "claude")] == ["claude"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("at 2026-01-05T09:00:00Z", "at [date]"),
        ("on Monday, January 5, 2026", "on [date]"),
        ("on Mon 5 Jan 2026, at 9:05 AM", "on [date], at [time]"),
        ("Platform: linux", "Platform: [environment]"),
        (" - OS Version: Linux 6.1", " - OS Version: [environment]"),
        ("id 550e8400-e29b-41d4-a716-446655440000.", "id [id]."),
        ("commit 4f1c9d2e, deface the decade", "commit [hash], deface the decade"),
        ("in /home/user/shop/main.py", "in [path]"),
        (f"in ~/shop and C:{chr(92)}Users{chr(92)}ann", "in [path] and [path]"),
        ("either/or, and and/or", "either/or, and and/or"),
        ("the model claude-opus-4-8[1m], Opus 4.8 (1M context)", "the model [model], [model]"),
        ("├── a\n└── b\nend", "[folders]\nend"),
        ("read http://127.0.0.1:8123/x now", "read [address] now"),
        ("use 24 tools, in 3 steps", "use 24 tools, in 3 steps"),
    ],
)
def test_what_is_volatile_is_masked_and_nothing_else(text: str, expected: str) -> None:
    assert masked(text) == expected
    assert masked(expected) == expected


def test_the_clock_of_the_tests_is_fixed() -> None:
    assert Tap().time == BEGIN
