"""The agent: its persona, what stands around its conversation in each mode, its budgets and its tools."""

from __future__ import annotations

from stenolog import Agent
from stenolog.context import Budget, Prompt, TruncateToolOutput
from stenolog.engine import RetryPolicy
from stenolog.models import Model
from stenolog.tools import ReadOutput, tool

AROUND = Prompt(
    base="You help people with their code. Answer in English.",
    tools="Look before you write. What is shown in part can be read whole with read_output.",
    modes={
        "chat": "Talk; call no tools.",
        "agent": "Use your tools, then say what you found.",
        "run": "Do what your node is for, and nothing beyond it.",
    },
    banner="[mode: {mode}]",
    persona_in=["agent", "run"],
    tools_in={"chat": []},
    cut_note=True,
)
"""How a mode differs from another: the history is the same in all of them."""
SIZE = Budget(messages=24, characters=120_000)
"""The old app had 80 messages; with 24, the story is short enough to be read to where it is cut."""
TRIES = RetryPolicy(
    attempts={**RetryPolicy().attempts, "process_exited": 100, "timeout": 1}, base=0.1, max_delay=2.0
)
"""However often the program is killed, it asks again; after a timeout, a person decides."""
SOURCE = "def parse(text):\n    return datetime.fromisoformat(text)\n"
PASSED = 200_000
FAILED = "FAILED test_dates.py::test_utc - assert 23:00 == 00:00\n"


@tool(repeat="safe")
def read_file(path: str) -> str:
    """Read a file of the project."""
    return SOURCE


@tool(repeat="safe")
def run_tests(which: str) -> str:
    """Run the tests: all of them, one, or those of a file."""
    if which == "test_utc":
        return FAILED
    if which != "all":
        return "12 passed"
    passed = [f"test_{n:06}.py .... passed\n" for n in range(PASSED)]
    where = sum(map(len, passed[: PASSED // 3]))
    passed.insert(PASSED // 3, FAILED)
    return "".join(passed) + f"1 failed, {PASSED} passed; the failure begins at character {where}"


@tool(repeat="safe")
def write_file(path: str, text: str) -> str:
    """Write a file of the project (here: only say so)."""
    return f"{len(text)} characters written to {path}"


def crew(model: Model) -> Agent:
    """Return the agent, whose card is recorded when the team begins."""
    return Agent(
        "crew",
        llm=model,
        persona="You are the architect of a small web shop.",
        tools=[read_file, run_tests, write_file, ReadOutput()],
        policy=SIZE | TruncateToolOutput(over=1_000, head=200, tail=100) | AROUND,
        retries=TRIES,
    )
