"""Secrets in the words of errors: by the names of variables, and by how they look."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

import stenolog
from stenolog import Agent, Team, ToolCall
from stenolog.adapters.providers.failures import hide
from stenolog.adapters.tools.mcp import MCPServer
from stenolog.domain.errors import ToolError
from stenolog.models import Model, ModelResponse, Scripted
from stenolog.tools import tool

SECRET = "pearl-77-otter"


@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "GH_TOKEN", "PGPASSWORD", "DATABASE_URL", "SENTRY_DSN", "BASIC_AUTH", "MY_BEARER",
     "SESSION_COOKIE", "DB_PASS"],
)  # fmt: skip
def test_the_value_of_a_variable_with_a_secret_name_is_hidden(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, SECRET)

    assert hide(f"no: {SECRET}.") == "no: ***."


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GIT_AUTHOR_NAME", "Ann of Example"),
        ("XDG_SESSION_TYPE", "x11"),
        ("USE_TOKEN", "true"),
        ("PLACE", "Rome 2026"),
    ],
)
def test_the_value_of_another_variable_stays(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)

    assert hide(f"{value} failed") == f"{value} failed"


def test_the_password_in_an_address_of_the_environment_is_hidden_wherever_it_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BROKER", f"amqp://ann:{SECRET}@host/x")

    assert hide(f"refused: {SECRET}") == "refused: ***"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("postgres://ann:pw@host/db refused", "postgres://***@host/db refused"),
        ("Authorization: Bearer abcdef123", "Authorization: ***"),
        ("got bearer abcdef123456", "got bearer ***"),
        ("401 for https://api/?key=abc&x=1", "401 for https://api/?key=***&x=1"),
        ("sk-proj-abcdefgh12", "***"),
        ("ghp_abcdefghij0123456789", "***"),
        ("xoxb-123456789012-abc", "***"),
        ("AKIAIOSFODNN7EXAMPLE", "***"),
        ("eyJhbGciOi.eyJzdWIiOi.c2ln of the user", "*** of the user"),
        ("ask-me of the disk-full error at a@b.c", "ask-me of the disk-full error at a@b.c"),
    ],
)  # fmt: skip
def test_what_looks_like_a_secret_is_hidden(words: str, expected: str) -> None:
    assert hide(words) == expected


def test_a_tools_exception_stands_in_the_log_without_the_secrets_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", f"postgres://ann:{SECRET}@host/db")

    @tool
    def fails() -> str:
        raise RuntimeError(f"cannot connect as ann with {SECRET}")

    @tool
    def tells() -> str:
        return f"the word is {SECRET}"

    async def main(log: stenolog.Log) -> None:
        calls = [ToolCall(id="a", name="fails"), ToolCall(id="b", name="tells")]
        async with Team([Agent("a", llm=Scripted(*calls, "done"), tools=[fails, tells])]) as team:
            async for _ in team.run(log["t"], "hi"):
                pass

    with stenolog.open(tmp_path / "a.db") as log:
        asyncio.run(main(log))
        results = [
            entry.event.text for entry in log["t"].entries() if isinstance(entry.event, stenolog.ToolResult)
        ]

    assert results == ["RuntimeError: cannot connect as ann with ***", f"the word is {SECRET}"]


def test_the_failure_of_an_mcp_server_is_told_without_the_secrets_it_was_given() -> None:
    dying = "import os, sys; sys.exit('no access with ' + os.environ['ODD'])"
    server = MCPServer.stdio([sys.executable, "-c", dying], env={"ODD": SECRET})

    with pytest.raises(ToolError, match=r"no access with \*\*\*") as caught:
        asyncio.run(server.open())

    assert SECRET not in str(caught.value)


def test_the_error_of_a_model_of_ones_own_stands_in_the_log_without_secrets(tmp_path: Path) -> None:
    class Mine(Model):
        name = "mine"
        api = "plain"

        async def stream(self, prompt: object):  # type: ignore[no-untyped-def]
            raise OSError("https://ann:pw@host refused ghp_abcdefghij0123456789")
            yield ModelResponse(())

    async def main(log: stenolog.Log) -> None:
        async with Team([Agent("a", llm=Mine())]) as team:
            async for _ in team.run(log["t"], "hi"):
                pass

    with stenolog.open(tmp_path / "a.db") as log:
        asyncio.run(main(log))
        (failed,) = [
            entry.event for entry in log["t"].entries() if isinstance(entry.event, stenolog.LlmError)
        ]

    assert "https://***@host refused ***" in failed.message
