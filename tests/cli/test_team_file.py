"""A team in a file: what each key becomes, and what is said of a mistake."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from stenolog import Agent
from stenolog.adapters.engine.team_file import load
from stenolog.adapters.models.model_names import model_from_string
from stenolog.context import Budget, LastN, Pins
from stenolog.domain.errors import CallerError
from stenolog.domain.lanes.turns import RoundRobin
from stenolog.engine import Handoff
from stenolog.models import (
    ACP,
    Anthropic,
    CommandLine,
    Gemini,
    HealthCheck,
    Model,
    OpenAIChat,
    OpenAIResponses,
    Timeouts,
)
from tests.cli.teams import LOOKS, TOOLS, script, team
from tests.llms.server import JSON, Reply, Server

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "team.toml"
KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder, no keys, and imports that are forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(sys.modules, "shop_tools", raising=False)
    return tmp_path


def written(text: str) -> Path:
    """Return a file of a team."""
    path = Path("team.toml")
    path.write_text(text)
    return path


def agent(text: str) -> Agent:
    """Return the only agent of a file."""
    [only] = load(written(text)).team.agents.values()
    return only


def fault(text: str) -> str:
    """Return the error of a file."""
    with pytest.raises(CallerError) as raised:
        load(written(text))
    return str(raised.value)


def test_the_example_is_a_team() -> None:
    made = load(EXAMPLE)
    baker = made.team.agents["baker"]

    assert (made.conversation, made.title, made.team.mode) == ("team", "the oven", "agent")
    assert made.team.turns == RoundRobin(pass_token=".....")
    assert [tool.spec.approval for tool in baker.tools] == [False, True]  # type: ignore[union-attr]
    assert baker.policy == LastN(50) | Budget(tokens=16_000)
    assert (baker.limits.max_steps, baker.limits.max_cost) == (10, 0.5)


def test_each_key_of_an_agent_has_its_place(folder: Path) -> None:
    (folder / "who.md").write_text("You are coder.\n")
    (folder / "shop_tools.py").write_text(TOOLS)
    made = agent(
        """
        [agents.coder]
        model = { use = "openai:gpt-5.2", api_key_env = "MINE", base_url = "http://127.0.0.1:9/v1" }
        persona_file = "who.md"
        tools = [{ use = "shop_tools:look", name = "see", ends_run = true, repeat = "safe", timeout = 3 }]
        parameters = { temperature = 0.5 }
        policy = { history = { kind = "last", n = 3 }, pins = { positions = [2] } }
        limits = { max_tokens = 10 }
        retries = { attempts = { timeout = 7 }, max_delay = 5 }
        timeouts = { first_token = 1, total = 0 }
        """.replace('"MINE"', '"PATH"')
    )
    [see] = made.tools

    assert made.persona == "You are coder."
    assert (see.spec.name, see.spec.ends_run) == ("see", True)  # type: ignore[union-attr]
    assert (see.repeat, see.timeout) == ("safe", 3)  # type: ignore[union-attr]
    assert made.parameters == {"temperature": 0.5}
    assert made.policy == LastN(3) | Pins(positions=[2])
    assert (made.limits.max_tokens, made.limits.max_steps) == (10, 50)
    assert (made.retries.max_delay, made.retries.attempts["timeout"], made.retries.attempts["network"]) == (
        5,
        7,
        6,
    )
    assert made.llm is not None
    assert made.llm.timeouts == Timeouts(first_token=1.0, total=None)


def test_the_health_check_of_a_program_and_the_circuit_breaker_are_configuration() -> None:
    program = "[agents.a]\nmodel = { use = 'cli:cat', health = { after = 60 } }"
    made = load(written(f"[breaker]\nfailures = 2\nrecovery_time = 0.5\n{program}")).team
    model = made.agents["a"].llm
    breaker = made.options.breaker()

    assert isinstance(model, CommandLine)
    assert model._health == HealthCheck(after=60)
    assert (breaker.failures, breaker.recovery_time) == (2, 0.5)


def test_agents_that_name_the_same_model_share_it_but_each_has_a_script_of_its_own(folder: Path) -> None:
    script(folder, "Hello.")
    models = {"a": "cli:cat", "b": "cli:cat", "c": "scripted:script.json", "d": "scripted:script.json"}
    text = "".join(f"[agents.{name}]\nmodel = '{model}'\n" for name, model in models.items())
    a, b, c, d = load(written(text)).team.agents.values()

    assert a.llm is b.llm
    assert c.llm is not d.llm


def test_a_script_is_taken_up_again_behind_what_was_said(folder: Path) -> None:
    async def work() -> list[str]:
        import stenolog

        said = []
        for message in ("Look.", "And now?"):
            with stenolog.open(folder / "t.db") as log:
                async with load(Path(team(folder, *LOOKS, "Still a cat."))).team as made:
                    async for _ in made.run(log["t"], message):
                        pass
                said.append(list(log["t"].entries())[-1].event.text)  # type: ignore[union-attr]
        return said

    assert asyncio.run(work()) == ["It is a cat.", "Still a cat."]


FAULTS = {
    "": "team.toml: agents: expected it, found nothing",
    "[agents]": "agents: expected it to have at least 1 item",
    "agents = 3": "team.toml: agents: expected a table, found 3",
    "[agents.a": "expected TOML: ",
    "turns = { rule = 'x' }\n[agents.a]": "turns: expected a turn rule: addressed, ",
    "turns = { rule = 'parallel', x = 1 }\n[agents.a]": "no such field: x",
    "[breaker]\nfails = 2\n[agents.a]": "breaker.fails: no such key; expected one of failures, recovery_time",
    "[breaker]\nfailures = 0\n[agents.a]": "breaker.failures: expected greater than or equal to 1, found 0",
}
AGENT_FAULTS = {
    "toolz = []": "agents.a.toolz: no such key; expected one of model, persona,",
    "model = 3": "agents.a.model.0: expected a table, found 3",
    "model = ['openai:x', 3]": "agents.a.model.1: expected a table, found 3",
    "model = 'gpt'": "agents.a.model: expected a model as openai:NAME, ",
    "model = { use = 'cli:cat', modus = 'x' }": "model: modus: no such option; expected one of mode,",
    "model = { use = 'cli:cat', health = { pong = 'x' } }": "expected ping, after, timeout or every; found",
    "model = { use = 'cli:cat', health = { after = 'x' } }": "model.after: expected a valid number, ",
    "model = { use = 'cli:cat', mode = 'x' }": "model: mode: expected one-shot or long-lived",
    "model = 'scripted:no.json'": "agents.a.model: No such file or directory: ",
    "model = 'openai:x'": "agents.a.model: openai: expected a key in the environment variable ",
    "model = { use = 'openai:x', api_key_env = 'NO_KEY' }": "environment variable NO_KEY, found none",
    "persona = 'x'\npersona_file = 'y'": "persona_file: expected persona or persona_file, found both",
    "persona_file = 'y'": "agents.a.persona_file: No such file or directory: ",
    "tools = ['look']": "agents.a.tools: expected module:function, found 'look'",
    "tools = ['no_such:look']": "no_such:look: ModuleNotFoundError: No module named 'no_such'",
    "tools = ['shop_tools:no']": "shop_tools:no: AttributeError: ",
    "tools = [{ use = 'shop_tools:look', aproval = true }]": "expected options of name, description, ",
    "tools = [{ use = 'shop_tools:look', repeat = 'x' }]": "repeat: expected never, safe or keyed",
    "mcp = ['x']": "agents.a.mcp: expected an MCP server (none is described), found 'x'",
    "mcp = ['x']\n[mcp.x]": "mcp.x: expected command or url, found neither",
    "policy = 'lst:3'": "agents.a.policy: policy 'lst:3': expected full, delta,",
    "limits = { max_steps = 'x' }": "max_steps: expected a valid integer, found 'x'",
    "limits = { steps = 1 }": "no such field: steps",
    "retries = { base = 'x' }": "agents.a.retries.base: expected a valid number",
    "retries = { attempts = { x = 1 } }": "attempts: expected of rate_limited,",
    "retries = { bas = 1 }": "falls_back; found 'bas'",
    "retries = { falls_back = ['slow'] }": "falls_back: expected of timeout, network,",
    "timeouts = { first_token = -1 }": "timeouts.first_token: expected greater than or equal to 0, found -1",
    "[prices.m]\ninput = 'x'": "prices: 'm': input: expected USD per million tokens, found 'x'",
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_mistake_in_a_file_is_said_with_its_key_what_was_expected_and_found(text: str) -> None:
    assert FAULTS[text] in fault(text)


@pytest.mark.parametrize("text", AGENT_FAULTS)
def test_a_mistake_of_an_agent_is_said_with_its_key_what_was_expected_and_found(
    text: str, folder: Path
) -> None:
    (folder / "shop_tools.py").write_text(TOOLS)

    assert AGENT_FAULTS[text] in fault(f"[agents.a]\n{text}")


def test_all_mistakes_in_the_shape_are_said_at_once() -> None:
    assert len(fault("mood = 1\n[agents.a]\nmodell = 2\n").splitlines()) == 2


def test_values_of_the_environment_are_filled_in_and_no_error_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "[agents.a]\nmcp = ['x']\n[mcp.x]\ncommand = ['true']\nenv = { TOKEN = 'Bearer ${SHOP_TOKEN}' }"

    assert "mcp.x: expected the environment variable SHOP_TOKEN, found none" in fault(text)
    monkeypatch.setenv("SHOP_TOKEN", "secret")
    assert repr(agent(text).tools) == "[<MCPServer true>]"


MODELS = {
    "openai:gpt-5.2": (OpenAIChat, "gpt-5.2"),
    "openai-responses:gpt-5.2": (OpenAIResponses, "gpt-5.2"),
    "anthropic:claude-opus-5": (Anthropic, "claude-opus-5"),
    "gemini:gemini-3-pro": (Gemini, "gemini-3-pro"),
    "http://127.0.0.1:9/v1#llama3:8b": (OpenAIChat, "llama3:8b"),
    "cli:cat -": (CommandLine, "cat"),
    "acp:agent --stdio": (ACP, "agent"),
}


@pytest.mark.parametrize("text", MODELS)
def test_a_model_is_made_of_what_is_written_for_it(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, "k")
    cls, name = MODELS[text]
    made: Model = model_from_string(text)

    assert (type(made), made.name) == (cls, name)


@pytest.mark.parametrize(
    ("kind", "variable"),
    [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY"), ("gemini", "GEMINI_API_KEY")],
)
def test_a_missing_key_is_named_by_its_variable_unless_none_is_needed(kind: str, variable: str) -> None:
    with pytest.raises(CallerError, match=f"{kind}: expected a key in the environment variable {variable}"):
        model_from_string(f"{kind}:x")
    assert model_from_string(f"{kind}:x", keys=False).name == "x"


@pytest.mark.parametrize("text", ["", "gpt", "openai:", "openai: ", "nobody:x", ":x"])
def test_what_is_no_model_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(
        CallerError,
        match=r"expected a model as openai:NAME, .*, scripted:FILE or http://HOST/v1#NAME; found ",
    ):
        model_from_string(text)


def models(*names: str) -> Reply:
    """Return a list of models."""
    return Reply(
        [json.dumps({"object": "list", "data": [{"id": name} for name in names]}).encode()], headers=JSON
    )


def test_the_only_model_of_a_server_need_not_be_named() -> None:
    with Server() as server:
        server.add(models("qwen3"), models("a", "b"), models())

        assert model_from_string(f"{server.url}/v1").name == "qwen3"
        with pytest.raises(CallerError, match=r"expected a model, as .*/v1#a; it has a, b"):
            model_from_string(f"{server.url}/v1")
        with pytest.raises(CallerError, match=r"expected a model, as .*/v1#NAME; it has none"):
            model_from_string(f"{server.url}/v1")
    assert [request.path for request in server.received] == ["/v1/models"] * 3


def test_a_server_that_is_not_there_is_said_to_be_so() -> None:
    with pytest.raises(CallerError, match=r"expected a model behind #, or a server that lists one: "):
        model_from_string("http://127.0.0.1:9/v1")


SCRIPT_FAULTS = {
    "[": "expected a script as JSON: ",
    "3": "expected a list of turns, or an object of turns, pause, piece, endless; found no list of turns",
    '{"turns": [], "paws": 1}': "found the key 'paws'",
    '[{"error": "tired"}]': "turn 1: error: expected one of timeout, ",
    '["a", ["b", {"type": "dance"}]]': "turn 2, part 2: ",
    '[{"type": "tool_call"}]': "turn 1: name: Field required",
}


@pytest.mark.parametrize("text", SCRIPT_FAULTS)
def test_what_is_no_script_is_refused_with_its_place(text: str, folder: Path) -> None:
    (folder / "s.json").write_text(text)

    with pytest.raises(CallerError) as raised:
        model_from_string("scripted:s.json")
    assert SCRIPT_FAULTS[text] in str(raised.value)


def test_agents_that_may_be_handed_to_are_named_or_have_a_table(folder: Path) -> None:
    (folder / "till.py").write_text("import pydantic\n\n\nclass Loaf(pydantic.BaseModel):\n    kind: str\n")
    table = '{ agent = "c", description = "Sells.", payload = "till:Loaf", filter = "last:3", name = "sell" }'
    text = f'[agents.a]\nhandoffs = ["b", {table}]\n[agents.b]\n[agents.c]\n'

    first, second = load(written(text)).team.agents["a"].handoffs

    assert isinstance(first, Handoff)
    assert isinstance(second, Handoff)
    assert (first.agent, first.name) == ("b", "transfer_to_b")
    assert (second.agent, second.name, second.description) == ("c", "sell", "Sells.")
    assert second.payload is not None
    assert list(second.payload.model_fields) == ["kind"]
    for wrong in ('["a"]', '["d"]', '[{ agent = "b", filters = 1 }]'):
        assert "agents.a.handoffs" in fault(text.replace(f'["b", {table}]', wrong))


ORDERS = """
from dataclasses import dataclass

from stenolog.engine import Refuse, after_answer


@dataclass
class Order:
    loaves: int


@after_answer
def few(answer):
    return Refuse("at most 9") if len(answer.text) > 13 else None
"""


@pytest.mark.parametrize(
    ("output", "given"),
    [
        ('"orders:Order"', 3),
        ('{ use = "orders:Order", tries = 5, tool = true }', 5),
        ('{ type = "object", properties = { loaves = { type = "integer" } } }', 3),
    ],
    ids=["class", "options", "schema"],
)
def test_answers_have_a_type_and_checks(
    output: str, given: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "orders", raising=False)
    (folder / "orders.py").write_text(ORDERS)
    text = f'[agents.a]\noutput = {output}\nchecks = ["orders:few"]\n'

    made = agent(text)

    assert made.output is not None
    assert (made.output.tries, [check.name for check in made.checks]) == (given, ["few"])
    assert list(made.output.schema["properties"]) == ["loaves"]
    assert "agents.a.checks: expected a function" in fault(text.replace("orders:few", "orders:Refuse"))
    assert "agents.a.output" in fault(text.replace(output, '{ use = "orders:Order", trys = 1 }'))
    assert "agents.a.output: output: expected" in fault(text.replace(output, '{ type = "string" }'))
