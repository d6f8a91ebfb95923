"""`bisect` over the commits of a team file and the releases of a program."""

from __future__ import annotations

import random
import subprocess
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import stenolog
from stenolog import AgentCard, AssistantMessage, ModeSwitch, Tool, UserMessage
from stenolog.models import MODELS, Model, ModelRequest, ModelResponse, StreamItem
from stenolog.parts import TextPart, ToolCall
from tests.cli.conftest import Ran
from tests.recording.programs import BODIES, Tap, answered, tool, turns

Cli = Callable[..., Ran]
TEAM = """
[agents.coder]
model = "openai:gpt-5.2"
persona_file = "coder.md"
tools = ["shop:look"]
"""
LOOK = '''
def look(where: str) -> str:
    """Look. {more}"""
    return where
'''


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a folder in Git with seven commits of a team: the fifth cannot be loaded."""
    folder = tmp_path / "team"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    for number in range(1, 8):
        (folder / "team.toml").write_text(TEAM if number != 5 else f"{TEAM}nonsense = 1\n")
        (folder / "shop.py").write_text(LOOK.format(more="Quickly." if number >= 7 else ""))
        line = "Guess if in doubt." if number >= 3 else "Ask if in doubt."
        (folder / "coder.md").write_text(f"You are coder, version {number}.\n{line}")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "--message", f"Version {number}")
        git(folder, "tag", f"v{number}")
    return folder / "team.toml"


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def talk() -> None:
    """Record two calls of coder and one of another agent."""
    with stenolog.open("talks.db") as log:
        card = AgentCard(model="gpt-5.2", persona="You were coder.", tools=[Tool(name="look")])
        log["t"].append(ModeSwitch(joins=("coder",), cards={"coder": card}), expected=0)
        for agent in ("coder", "coder", "other"):
            log["t"].append(UserMessage(text="Bread?", to=(agent,)))
            log["t"].append(AssistantMessage(agent=agent, text="Yes."))


def test_the_commit_of_a_team_that_brought_a_line_is_named(cli: Cli, repository: Path) -> None:
    talk()
    found = cli("bisect", "--team", str(repository), "--between", "v1", "v4", "--holds", "Guess", "--json")

    assert (found.status, found.data["verdict"], found.data["worse"]) == (0, "found", False)
    assert found.data["after"]["title"].endswith("Version 3")
    assert [case["at"] for case in sorted(found.data["cases"], key=lambda case: case["at"])] == [2, 4]


@pytest.mark.slow
def test_the_commit_that_changed_a_tool_is_named_and_one_that_cannot_be_loaded_is_passed_over(
    cli: Cli, repository: Path
) -> None:
    talk()
    asked = ("bisect", "--team", str(repository), "--between")

    assert "Version 7" in cli(*asked, "v4", "v7", "--holds", "Quickly").out
    assert "nonsense" in cli(*asked, "v5", "v7", "--holds", "Guess").err


def test_a_wrong_range_is_one_error(cli: Cli, repository: Path) -> None:
    talk()
    for words, error in {
        ("--between", "v1", "nowhere"): "'nowhere'",
        ("--between", "v7", "v7"): "no commit after v7",
        (): "expected --between COMMIT COMMIT",
        ("--between", "v1", "v2", "--at", "3"): "--at is for one request",
        ("--between", "v1", "v2", "--releases", "claude"): "expected one of them",
    }.items():
        ran = cli("bisect", "--team", str(repository), *words, "--holds", "Guess")
        assert (ran.status, ran.out) == (2, "")
        assert error in ran.err


PROMPT = """\
You are Claude Code.
Working directory: /home/user/shop{number}
Today's date is 2026-01-{number:02}.
Always run the tests.
Prefer small changes.
This is release {number}.
{line}
"""


@pytest.fixture
def recorded(cli: Cli) -> Cli:
    """Return the command line beside a log with six releases of Claude Code; the fourth has another line."""
    with stenolog.open("talks.db") as log:
        tap = Tap(log)
        for number in range(1, 7):
            body = BODIES["anthropic"](turns("anthropic", [f"Question {number}?"]))
            line = "Guess if in doubt." if number >= 4 else "Ask if in doubt."
            body["system"] = [{"type": "text", "text": PROMPT.format(number=number, line=line)}]
            body["tools"] = [tool("anthropic", "Bash"), tool("anthropic", f"mcp__own__{number}")]
            client = f"claude-cli/2.1.{number}"
            reply = answered("anthropic", "ok", id=f"r{number}")
            tap.ask("anthropic", body, reply, session=f"s{number}", client=client)
    return cli


def test_the_release_of_a_program_that_brought_a_line_is_named(recorded: Cli) -> None:
    found = recorded("bisect", "--releases", "claude", "--holds", "Guess if", "--json")
    assert (found.data["verdict"], found.data["after"]["title"]) == ("found", "claude-cli/2.1.4")
    assert len(found.data["cases"]) == 6

    between = recorded("bisect", "--releases", "claude", "--between", "2.1.1", "2.1.3", "--holds", "Guess if")
    assert "no difference" in between.out
    assert recorded("bisect", "--releases", "claude", "--between", "2", "9", "--holds", "x").status == 2


def test_what_belongs_to_a_session_stays_as_recorded_under_another_release(recorded: Cli) -> None:
    for kept in ("/home/user/shop2", "2026-01-02", "mcp__own__2"):
        found = recorded("bisect", "claude-s2", "--releases", "claude", "--holds", kept, "--json")
        assert [tried["passed"] for tried in found.data["tried"]] == [1, 1], kept
    for others in ("/home/user/shop6", "2026-01-06", "mcp__own__6"):
        found = recorded("bisect", "claude-s2", "--releases", "claude", "--holds", others, "--json")
        assert [tried["passed"] for tried in found.data["tried"]] == [0, 0], others


def test_a_prompt_that_a_program_says_as_messages_is_that_of_the_release(cli: Cli) -> None:
    with stenolog.open("talks.db") as log:
        tap = Tap(log)
        for number, line in enumerate(("Ask if in doubt.", "Ask if in doubt!", "Guess if in doubt."), 1):
            body = BODIES["openai-responses"](turns("openai-responses", [f"Question {number}?"]))
            del body["instructions"]
            words = f"You are Codex.\nRun the tests.\nIn /home/user/shop{number}.\n{line}"
            opening = {"role": "developer", "content": [{"type": "input_text", "text": words}]}
            body["input"] = [{"type": "message", **opening}, *body["input"]]
            tap.ask("openai-responses", body, answered("openai-responses", "ok"), session=f"s{number}")
    asked = ("bisect", "--releases", "codex", "--json", "--holds")

    found = cli(*asked, "Guess if")
    assert (found.data["verdict"], found.data["tried"][1]["passed"]) == ("found", 0)
    assert {tried["passed"] for tried in cli(*asked, "shop3").data["tried"]} == {1}
    assert {tried["passed"] for tried in cli(*asked, "Question 2").data["tried"]} == {1}


class Noisy(Model):
    """A model that mostly says yes, but calls a tool if it was told to guess."""

    api = "openai-chat"
    charges = "nothing"

    def __init__(self, name: str) -> None:
        self.name = name
        self._random = random.Random(1)

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        yield prompt.outgoing()
        is_good = self._random.random() < (0.95 if "Guess" not in str(prompt.body) else 0.1)
        said = TextPart(text="Yes.") if is_good else ToolCall(id="c", name="look", arguments="{}")
        yield ModelResponse((said,))


def test_the_entry_that_turned_the_answers_is_named_and_nothing_is_asked_twice(cli: Cli) -> None:
    with stenolog.open("talks.db") as log:
        log["t"].append(ModeSwitch(joins=("coder",), cards={"coder": AgentCard(model="m")}), expected=0)
        for text in ("Bread?", "Milk?", "Guess if in doubt.", "Eggs?", "And now?"):
            log["t"].append(UserMessage(text=text, to=("coder",)))
        log["t"].append(AssistantMessage(agent="coder", text="Yes."))
    asked = ("bisect", "t", "--through", "noisy:x", "--ask")
    with MODELS.restored():
        MODELS.add("noisy", Noisy)
        few = cli(*asked, "4")
        found = cli(*asked, "60", "--json")
        again = cli(*asked, "60", "--json")
    with (
        stenolog.open("talks.db") as log,
        TestClient(stenolog.inspector(log, token=""), base_url="http://127.0.0.1") as web,
    ):
        page = web.get("/bisect/t?agent=coder").text

    assert (few.status, "ask more often" in few.out) == (1, True)
    assert (found.status, found.data["verdict"], found.data["after"]["name"]) == (0, "found", "4")
    assert (found.data["worse"], found.data["confidence"], found.data["is_cut"]) == (True, 0.95, False)
    assert again.data == found.data, "the answers were kept"
    assert "By kept answers" in page
    assert "entry 4: from here on fewer answers pass" in page


def test_a_search_by_answers_tells_its_price_first_and_needs_an_answer_to_compare_with(demo: Cli) -> None:
    for given, why in (
        (("--agent", "coder", "--ask", "5"), "expected --budget USD, found none;"),
        (("--agent", "coder", "--ask", "5", "--holds", "x"), "--holds asks no model"),
        (("--agent", "coder"), "expected --holds TEXT or --ask N"),
        (("--agent", "coder", "--at", "4", "--ask", "5"), "expected a request that was answered"),
    ):
        ran = demo("bisect", "demo", *given)
        assert (ran.status, ran.out) == (2, "")
        assert why in ran.err
