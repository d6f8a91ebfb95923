"""The Claude Agent SDK itself on a log: its conformance suite, and the real program on two hosts.

The SDK's wheel brings a program of 400 MB, so its source alone is installed, without dependencies.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog.frameworks import claude_session_store
from tests.agents import real
from tests.agents.provider import Provider
from tests.postgres.server import Server
from tests.transcripts.given import user

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning:claude_agent_sdk")]
SDK = ("claude-agent-sdk==0.2.189", "sniffio==1.3.1")
PIP = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-binary=claude-agent-sdk")


@pytest.fixture(scope="module", autouse=True)
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("sdk")
    subprocess.run([*PIP, "--target", str(folder), *SDK], check=True, timeout=300)
    sys.path.append(str(folder))
    yield
    sys.path.remove(str(folder))


@pytest.mark.parametrize("where", ["sqlite", "postgresql"])
def test_the_store_keeps_all_contracts_of_the_sdk(
    where: str, tmp_path: Path, postgres: Callable[[str], Server]
) -> None:
    made, numbers = list[stenolog.Log](), itertools.count()

    def new() -> Any:
        name = f"t{next(numbers)}"
        is_file = where == "sqlite"
        made.append(
            stenolog.open(
                tmp_path / name if is_file else postgres("postgres 15").address(schema=f"contract_{name}")
            )
        )
        return claude_session_store(made[-1])

    asyncio.run(import_module("claude_agent_sdk.testing").run_session_store_conformance(new))
    for log in made:
        log.close()

    assert len(made) == 15  # one to look at, and one a contract


def test_a_summary_keeps_no_erased_words(tmp_path: Path) -> None:
    key = {"project_key": "p", "session_id": "s"}
    lines = [
        user("u0", None, "The code is 7421."),
        *(user(f"u{n}", f"u{n - 1}", f"{n}?") for n in range(1, 40)),
    ]
    with stenolog.open(tmp_path / "talks.db") as log:
        store = claude_session_store(log)
        for line in lines:
            asyncio.run(store.append(key, [line]))
        (before,) = asyncio.run(store.list_session_summaries("p"))
        log["p/s"].erase(next(entry.position for entry in log["p/s"] if entry.id == "u0"))
        (after,) = asyncio.run(store.list_session_summaries("p"))

    assert (before["data"]["first_prompt"], after["data"]["first_prompt"]) == ("The code is 7421.", "1?")


def test_a_session_goes_on_on_another_host_from_the_log_alone(tmp_path: Path, provider: Provider) -> None:
    claude, session = real.installed() / "claude", ""
    for host, words in (("one", "I am Ann. RUN «echo baked»"), ("two", "Who am I?")):
        home = tmp_path / host
        env = real.settled(home, provider.url)
        work = tmp_path / "work"  # a project is known by its folder
        work.mkdir(exist_ok=True)
        with stenolog.open(tmp_path / "talks.db") as log:
            session = asyncio.run(ask(words, claude, env, work, log, session))

    with stenolog.open(tmp_path / "talks.db") as log:
        (name,) = log.names()
        request = log[name].request("claude", at=log[name].position - 1, api="anthropic")
        listed = asyncio.run(
            claude_session_store(log).list_session_summaries(name.removesuffix(f"/{session}"))
        )
    assert "I am Ann." in json.dumps(provider.bodies[-1]["messages"])
    assert "baked" in json.dumps(provider.bodies[-1]["messages"])
    assert "I am Ann." in json.dumps(request.body)
    assert [each["session_id"] for each in listed] == [session]


async def ask(
    words: str, claude: Path, env: dict[str, str], work: Path, log: stenolog.Log, session: str
) -> str:
    """Let the SDK run Claude Code on a prompt; return the session's id."""
    sdk, id = import_module("claude_agent_sdk"), ""
    options = sdk.ClaudeAgentOptions(
        cli_path=claude,
        env={**os.environ, **env, "CLAUDE_CONFIG_DIR": str(Path(env["HOME"]) / ".claude")},
        cwd=work,
        permission_mode="bypassPermissions",
        session_store=claude_session_store(log),
        resume=session or None,
    )
    async for message in sdk.query(prompt=words, options=options):
        id = getattr(message, "session_id", id) or id
    return id
