"""The environment that programs inherit is a list."""

from __future__ import annotations

import pytest

from stenolog.adapters.agents.command import SESSION, Command, inherited
from stenolog.domain.errors import CallerError
from tests.agents.given import PYTHON, asked, run, words

OURS = {
    "PATH": "/bin",
    "LC_ALL": "C",
    "https_proxy": "http://p",
    "ANTHROPIC_API_KEY": "a",
    "OPENAI_API_KEY": "o",
    "GEMINI_API_KEY": "g",
    "TELEGRAM_BOT_TOKEN": "t",
    "DATABASE_URL": "d",
    "AWS_REGION": "r",
    "NODE_OPTIONS": "",
    "NODE_AUTH_TOKEN": "n",
}
COMMON = {"PATH", "LC_ALL", "https_proxy", "NODE_OPTIONS"}


@pytest.mark.parametrize(
    ("command", "inherit", "more"),
    [
        (["agent"], (), set()),
        (["bin/claude", "-p"], (), {"ANTHROPIC_API_KEY"}),
        (["npx", "-y", "@openai/codex", "exec"], (), {"OPENAI_API_KEY"}),
        (["gemini", "--acp"], (), {"GEMINI_API_KEY"}),
        (["claude/agent"], (), set()),
        (["agent"], ("AWS_*", "DATABASE_URL"), {"AWS_REGION", "DATABASE_URL"}),
        (["agent"], ("*",), set(OURS) - COMMON - {"TELEGRAM_BOT_TOKEN"}),
        (["agent"], ("TELEGRAM_BOT_TOKEN",), {"TELEGRAM_BOT_TOKEN"}),
    ],
)
def test_a_program_inherits_what_its_login_needs_and_what_its_owner_names(
    command: list[str], inherit: tuple[str, ...], more: set[str]
) -> None:
    assert inherited(OURS, command, inherit).keys() == COMMON | more


def test_a_token_of_ours_is_not_among_what_a_program_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    from stenolog.models import CommandLine

    monkeypatch.setenv("BOT_TOKEN", "123:secret")
    monkeypatch.setenv("SETTING", "named")
    show = "import os; print(os.environ.get('BOT_TOKEN'), os.environ.get('SETTING'), os.environ.get('OWN'))"
    model = CommandLine([*PYTHON, "-c", show], env={"OWN": "given"}, inherit=["SETTING"])

    assert words(run(lambda model: asked(model, ""), model)) == "None named given"


def test_one_name_that_is_no_list_is_refused() -> None:
    with pytest.raises(CallerError, match="inherit: expected a list"):
        Command.of("agent", inherit="AWS_*")


def test_a_session_that_the_log_names_is_never_read_as_an_option() -> None:
    command = Command.of("claude -p {prompt}")

    assert command.arguments("Hi", "s-1", ["--resume", SESSION])[-2:] == ["s-1", "Hi"]
    with pytest.raises(CallerError, match="which reads as an option"):
        command.arguments("Hi", "--dangerously-skip-permissions", ["--resume", SESSION])
