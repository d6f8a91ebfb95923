"""Programs whose format is known by their name."""

from __future__ import annotations

import pytest

from stenolog.adapters.agents.output_formats import split_command


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("claude", ("claude -p", "claude-code")),
        ("bin/claude --print --model opus", ("bin/claude --print --model opus", "claude-code")),
        ("claude -p --output-format text", ("claude -p --output-format text", "text")),
        ("codex", ("codex exec", "codex")),
        ("codex exec --full-auto", ("codex exec --full-auto", "codex")),
        ("codex -m gpt-5", ("codex exec -m gpt-5", "codex")),
        ("gemini --yolo", ("gemini --yolo", "gemini-cli")),
        ("bin/qwen -m qwen3", ("bin/qwen -m qwen3", "qwen-code")),
        ("gemini -o text", ("gemini -o text", "text")),
        ("my-agent 'a b'", ("my-agent 'a b'", "text")),
    ],
)
def test_a_program_is_known_by_its_name(command: str, expected: tuple[str, str]) -> None:
    assert split_command(command) == expected
