"""A command finds the tap by what it reads itself: its environment, or an option."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from stenolog.apps.tap.relay.guard import Guard, Refusal, Route
from stenolog.apps.tap.supervisor import Launch, launch
from stenolog.apps.tap.upstreams import parse_upstream, upstreams
from stenolog.domain.errors import InvalidEventError
from stenolog.plugins import load_plugins
from stenolog.projections.formats import providers
from tests.agents.provider import Provider
from tests.agents.real import installed
from tests.tap.test_tap_command import ROOT

load_plugins()
FIRST_PARTY = "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL"
BASE = "http://127.0.0.1:9/token"
CODEX = ["-c", f'openai_base_url="{BASE}/openai"']


def launched(*command: str, options: Sequence[str] = (), **environ: str) -> Launch:
    return launch(command, BASE, upstreams(options, environ), environ)


def test_any_command_gets_the_base_url_of_each_api_and_its_own_environment() -> None:
    found = launched("agent", "--go", HOME="/h", ANTHROPIC_API_KEY="k")

    assert found.command == ["agent", "--go"]
    given = {name: value for name, value in found.environment.items() if "URL" in name or "BASE" in name}
    known = {name: f"{BASE}/{each.names[0]}" for _, each in providers() for name in each.base_variables}
    assert given == known | {
        "ANTHROPIC_BASE_URL": f"{BASE}/anthropic",
        "OPENAI_BASE_URL": f"{BASE}/openai",
        "OPENAI_API_BASE": f"{BASE}/openai",
        "GOOGLE_GEMINI_BASE_URL": f"{BASE}/gemini",
        "GEMINI_BASE_URL": f"{BASE}/gemini",
        FIRST_PARTY: "1",
    }
    assert found.environment["CODE_ASSIST_ENDPOINT"] == f"{BASE}/code-assist"
    assert (found.environment["HOME"], found.environment["ANTHROPIC_API_KEY"]) == ("/h", "k")


def test_what_is_asked_for_over_a_proxy_of_the_environment_is_not_asked_for_here() -> None:
    assert launched("agent", NO_PROXY="example.com,localhost").environment["NO_PROXY"] == (
        "example.com,localhost,127.0.0.1,::1"
    )


@pytest.mark.parametrize("other", [{"options": ["anthropic=http://a"]}, {"ANTHROPIC_BASE_URL": "http://a"}])
def test_claude_code_is_called_first_party_only_before_its_own_provider(other: dict[str, Any]) -> None:
    assert FIRST_PARTY not in launched("claude", **other).environment


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["codex"], ["codex", *CODEX]),
        (["codex", "exec", "Hi"], ["codex", *CODEX, "exec", "Hi"]),
        (["/usr/bin/codex", "-c", "model=x"], ["/usr/bin/codex", *CODEX, "-c", "model=x"]),
        (["npx", "-y", "@openai/codex@1.2", "exec"], ["npx", "-y", "@openai/codex@1.2", *CODEX, "exec"]),
        (["my-agent", "codex"], ["my-agent", "codex"]),
    ],
)
def test_codex_gets_an_option_since_it_reads_no_variable(command: list[str], expected: list[str]) -> None:
    assert launched(*command).command == expected


def test_opencode_gets_base_urls_with_versions_beside_its_own_configuration() -> None:
    own = {"model": "m", "provider": {"anthropic": {"options": {"timeout": 1}}, "mine": {}}}
    found = json.loads(
        launched("opencode", OPENCODE_CONFIG_CONTENT=json.dumps(own)).environment["OPENCODE_CONFIG_CONTENT"]
    )

    assert found == {
        "model": "m",
        "provider": {
            "anthropic": {"options": {"timeout": 1, "baseURL": f"{BASE}/anthropic/v1"}},
            "mine": {},
            "openai": {"options": {"baseURL": f"{BASE}/openai"}},
            "google": {"options": {"baseURL": f"{BASE}/gemini/v1beta"}},
        },
    }


def test_a_base_url_in_the_environment_is_the_upstream_and_an_option_goes_before_it() -> None:
    environ = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1/a/", "OPENAI_API_BASE": "https://b.example:8443/v1"}
    found = upstreams(["gemini=http://c.example", "local=http://[::1]:2/x"], environ)

    made = {name: (each.origin, each.path, each.authority) for name, each in found.items()}
    expected = {
        "anthropic": ("http://127.0.0.1:1", "/a", "127.0.0.1:1"),
        "openai": ("https://b.example:8443", "/v1", "b.example:8443"),
        "gemini": ("http://c.example", "", "c.example"),
        "code-assist": ("https://cloudcode-pa.googleapis.com", "", "cloudcode-pa.googleapis.com"),
        "local": ("http://[::1]:2", "/x", "[::1]:2"),
    }
    assert {name: made[name] for name in expected} == expected
    others = {name: each.base for api, each in providers() for name in each.names[:1]}
    assert [name for name in made.keys() - expected.keys() if made[name][0] != others[name]] == []


@pytest.mark.parametrize(
    ("url", "name"), [("https://api.openai.com/v1", "openai"), ("http://localhost:8080/v1", "default")]
)
def test_an_upstream_without_a_name_is_called_by_its_api(url: str, name: str) -> None:
    assert upstreams([url], {})[name] == parse_upstream(name, url)


@pytest.mark.parametrize(
    "url",
    ["ftp://a", "http://", "a.example", "http://a:x", "https://a/?key=secret", "http://a/#secret", "unix:/a"],
)
def test_an_upstream_that_is_no_url_is_refused_and_no_secret_is_shown(url: str) -> None:
    with pytest.raises(InvalidEventError) as raised:
        upstreams([f"openai={url}"], {})

    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("target", "headers", "upstream", "expected"),
    [
        (b"/t/openai/responses", [], "https://api.openai.com", b"/v1/responses"),
        (b"/t/openai", [], "https://api.openai.com", b"/v1"),
        (b"/t/anthropic", [], "https://api.anthropic.com", b"/"),
        (b"/t/anthropic?a=%2F", [], "https://api.anthropic.com", b"/?a=%2F"),
        (b"/t/anthropic//v1/a?b", [], "https://api.anthropic.com", b"//v1/a?b"),
        (b"/t/openai/a", [(b"chatgpt-account-id", b"x")], "https://chatgpt.com", b"/backend-api/codex/a"),
    ],
)  # fmt: skip
def test_a_request_goes_where_its_client_meant(
    target: bytes, headers: list[tuple[bytes, bytes]], upstream: str, expected: bytes
) -> None:
    guard = Guard("t", upstreams([], {}), "127.0.0.1", 9)
    route = guard.route(target, [(b"host", b"127.0.0.1:9"), *headers])

    assert isinstance(route, Route)
    assert (route.upstream.origin, route.target) == (upstream, expected)


def test_an_account_s_request_stays_with_an_upstream_that_was_asked_for() -> None:
    guard = Guard("t", upstreams(["openai=http://a.example/v1"], {}), "127.0.0.1", 9)
    route = guard.route(b"/t/openai/responses", [(b"host", b"localhost:9"), (b"chatgpt-account-id", b"x")])

    assert isinstance(route, Route)
    assert route.upstream.origin == "http://a.example"
    assert isinstance(guard.route(b"/t/chatgpt/responses", []), Refusal)


# Real agents run behind a tap as they are: no file is touched, and their requests go through it.


COMMANDS = {
    "claude": ["-p", "Say hi", "--dangerously-skip-permissions"],
    "codex": ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "Say hi"],
}


@pytest.fixture
def provider() -> Iterator[Provider]:
    running = Provider()
    yield running
    running.shutdown()
    running.server_close()


def environment(home: Path) -> dict[str, str]:
    """Return the environment of agents that were never set up."""
    (home / ".claude.json").write_text(json.dumps({"hasCompletedOnboarding": True}))
    keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "CODEX_API_KEY"), "sk-ant-none-0123456789")
    return {
        **{name: value for name, value in os.environ.items() if not name.endswith("_BASE_URL")},
        **keys,
        "PYTHONPATH": str(ROOT),
        "HOME": str(home),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    }


@pytest.mark.slow
@pytest.mark.parametrize("agent", COMMANDS)
def test_an_agent_behind_a_tap_gets_its_answer(tmp_path: Path, provider: Provider, agent: str) -> None:
    upstreams = [f"--upstream=anthropic={provider.url}", f"--upstream=openai={provider.url}/v1"]
    words = [str(installed() / agent), *COMMANDS[agent]]
    ran = subprocess.run(
        [sys.executable, "-m", "stenolog", "tap", "--db", str(tmp_path / "a.db"), *upstreams, "--", *words],
        env=environment(tmp_path),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (ran.returncode, ran.stdout.strip()) == (0, "done"), ran.stderr
    assert not (tmp_path / "a-tap").exists()
