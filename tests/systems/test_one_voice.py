"""One list of messages for all agents of a conversation, as CrewAgent's document has it: one voice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import stenolog
from stenolog import (
    Agent,
    AgentCard,
    AssistantMessage,
    Conversation,
    LlmError,
    ModeSwitch,
    Team,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.context import Attribution, Budget, MissedMessages, Prompt, SinceLastTurn
from stenolog.engine import RoundRobin
from stenolog.errors import CallerError, InvalidPolicyError, ToolError
from stenolog.events import WorkflowRun
from stenolog.models import Scripted
from stenolog.tools import BaseTool, Toolset, run_calls, tool
from tests.requests.judging import refused

VOICE = Attribution(role="assistant")
AROUND = Prompt(banner="MODE\n- active: {mode}", persona_in=["agent", "run"], place="first")
CALL = ToolCall(id="c1", name="read", arguments='{"path": "a.ts"}')
APIS = ("openai-chat", "openai-responses", "anthropic", "gemini")


@pytest.fixture
def talk() -> Iterator[Conversation]:
    """Return a conversation that has been in three modes, with an agent each."""
    cards: dict[str, AgentCard | None] = {
        name: AgentCard(model="gpt-5.2", persona=f"You are the {name}.", policy=VOICE | AROUND)
        for name in ("guide", "architect", "coder")
    }
    with stenolog.open(":memory:") as log:
        conversation = log["talk"]
        conversation.extend(
            [
                ModeSwitch(mode="chat", joins=[*cards], cards=cards),
                UserMessage(text="Hello", to=["guide"]),
                AssistantMessage(agent="guide", text="Hi."),
                ModeSwitch(mode="agent"),
                UserMessage(text="Read it.", to=["architect"]),
                AssistantMessage(agent="architect", tool_calls=[CALL]),
                ToolResult(call_id="c1", name="read", text="export {}"),
                LlmError(agent="architect", category="timeout", message="60 s", text="It exports"),
                UserMessage(text="continue", to=["coder"]),
            ]
        )
        yield conversation


def history(conversation: Conversation, agent: str, api: str = "openai-chat") -> list[Any]:
    """Return the messages of an agent's next request without those of the system."""
    messages = conversation.request(agent, api=api).body["messages"]
    return [message for message in messages if message["role"] != "system"]


def test_an_agent_goes_on_with_calls_results_and_cut_off_words_of_another_as_its_own(
    talk: Conversation,
) -> None:
    assert talk.request("coder").sendable
    sent = history(talk, "coder")
    assert [message["role"] for message in sent] == [
        *("user", "assistant", "user", "assistant", "tool", "assistant", "user", "user")
    ]
    assert sent[3]["tool_calls"][0]["id"] == sent[4]["tool_call_id"] == "c1"
    assert [sent[5]["content"], sent[7]["content"]] == ["It exports", "continue"]


def test_a_switch_of_mode_and_agent_changes_the_system_prompt_alone(talk: Conversation) -> None:
    before = history(talk, "coder")
    assert history(talk, "architect")[: len(before)] == before
    run = WorkflowRun(id="r1", directive="RUN_DIRECTIVE", node="n1", brief="NODE_BRIEF")
    talk.append(ModeSwitch(mode="run", active_run=run), expected=talk.position)
    assert history(talk, "coder") == before
    system = talk.request("coder").body["messages"][0]["content"]
    assert system == "You are the coder.\n\nMODE\n- active: run\n\nRUN_DIRECTIVE\n\nNODE_BRIEF"


@pytest.mark.parametrize("api", APIS)
def test_every_request_of_every_agent_is_one_that_its_provider_takes(talk: Conversation, api: str) -> None:
    for position in range(1, talk.position + 1):
        for agent in ("guide", "architect", "coder"):
            assert not refused(api, talk.request(agent, at=position, api=api).body)


def test_an_open_call_of_another_agent_has_a_placeholder_and_then_its_result(talk: Conversation) -> None:
    second = ToolCall(id="c2", name="read", arguments="{}")
    talk.append(AssistantMessage(agent="architect", tool_calls=[second]))
    talk.append(UserMessage(text="And you?", to=["coder"]))
    assert history(talk, "coder")[-2]["content"] == "[no result yet: the call is still running]"
    talk.append(ToolResult(call_id="c2", name="read", text="nothing"))
    assert "nothing" in [message["content"] for message in history(talk, "coder")]
    assert not refused("anthropic", talk.request("coder", api="anthropic").body)


def test_behind_the_answer_of_another_an_agent_that_is_asked_is_told_that_it_is_its_turn() -> None:
    with stenolog.open(":memory:") as log:
        room = log["room"]
        cards: dict[str, AgentCard | None] = {
            name: AgentCard(model="gpt-5.2", policy=VOICE) for name in ("a", "b")
        }
        room.append(ModeSwitch(joins=["a", "b"], cards=cards, turns=RoundRobin()))
        room.append(UserMessage(text="Begin."))
        room.append(AssistantMessage(agent="a", text="One."))

        request = room.request("b")
        assert request.sendable, request.reason
        assert [message["content"] for message in request.body["messages"]] == [
            *("Begin.", "One.", "[it is your turn]")
        ]
        assert [part.rule for part in request.parts if part.role != "tools"][-2:] == ["shared", "turn-note"]


def test_a_budget_counts_the_note_too() -> None:
    with stenolog.open(":memory:") as log:
        room = log["room"]
        policy = VOICE | Budget(messages=4)
        cards: dict[str, AgentCard | None] = {
            name: AgentCard(model="gpt-5.2", policy=policy) for name in ("a", "b")
        }
        room.append(ModeSwitch(joins=["a", "b"], cards=cards, turns=RoundRobin(max_rounds=99)))
        for number in range(12):
            room.append(UserMessage(text=f"Round {number}."))
            for agent in ("a", "b"):
                request = room.request(agent)
                assert request.sendable, request.reason
                assert request.size.messages <= 4
                room.append(AssistantMessage(agent=agent, text="Yes.", receipt=request.receipt))


def test_what_is_addressed_to_others_stays_theirs_in_the_scope_addressed(talk: Conversation) -> None:
    with stenolog.open(":memory:") as log:
        shy = log["shy"]
        cards: dict[str, AgentCard | None] = {name: AgentCard(policy=VOICE) for name in ("a", "b")}
        shy.append(ModeSwitch(joins=["a", "b"], cards=cards, scope="addressed"))
        shy.append(UserMessage(text="Between us", to=["a"]))
        shy.append(AssistantMessage(agent="a", text="Yes.", to=["user"]))
        assert "Between us" not in str(shy.request("b").body)


@pytest.mark.parametrize(
    "other", [Attribution(role="assistant", others="💬 {name}"), VOICE | MissedMessages()]
)
def test_headings_over_words_that_are_ones_own_are_refused(talk: Conversation, other: Any) -> None:
    with pytest.raises(InvalidPolicyError, match="/voices/role: expected no"):
        talk.request("coder", policy=other)


def test_a_cut_to_100_per_cent_is_a_sliding_window(talk: Conversation) -> None:
    for number in range(40):
        talk.append(UserMessage(text=f"Question {number}", to=["coder"]))
        talk.append(AssistantMessage(agent="coder", text=f"Answer {number}"))
        talk.append(UserMessage(text="And?", to=["coder"]))
        request = talk.request("coder", policy=VOICE | Budget(messages=30, cut_to=100))
        assert request.size.messages <= 30
    assert request.size.messages >= 28
    assert [run.rule for run in request.omissions] == ["over-budget"]


def test_a_backend_that_keeps_its_session_is_sent_what_others_said_meanwhile(talk: Conversation) -> None:
    before = talk.request("coder").receipt
    talk.append(AssistantMessage(agent="architect", text="Said meanwhile."))
    talk.append(AssistantMessage(agent="coder", text="Done.", session="cli-1", receipt=before))
    talk.append(UserMessage(text="Go on.", to=["coder"]))

    request = talk.request("coder", policy=SinceLastTurn() | VOICE)
    said = [message["content"] for message in request.body["messages"] if message["role"] != "system"]
    assert said == ["Said meanwhile.", "Go on."]


def test_what_a_worker_says_on_a_task_does_not_part_its_callers_call_from_the_result(
    talk: Conversation,
) -> None:
    ask = ToolCall(id="c2", name="ask_tester", arguments="{}")
    talk.append(AssistantMessage(agent="coder", tool_calls=[ask]))
    talk.append(AssistantMessage(agent="tester", task="t1", text="I look."))
    talk.append(ToolResult(call_id="c2", name="ask_tester", text="12 passed."))

    *_, called, result, said = history(talk, "coder")
    assert (called["role"], result["content"]) == ("assistant", "12 passed.")
    assert (said["role"], "I look." in said["content"]) == ("user", True)


# System 2: each mode has the tools that its rules allow, in the request and in what is run.


RAN: list[str] = []


def look() -> str:
    """Look."""
    RAN.append("look")
    return "seen"


def write() -> str:
    """Write."""
    RAN.append("write")
    return "written"


IN = Prompt(tools_in={"chat": [], "agent": ["look"]})


def crew(*turns: Any, policy: Any = IN) -> Team:
    return Team([Agent("crew", llm=Scripted(*turns), tools=[look, write], policy=policy)], mode="chat")


def names(conversation: Conversation, api: str = "openai-chat") -> list[str]:
    tools = conversation.request("crew", api=api).body.get("tools", [])
    return [tool["function"]["name"] if "function" in tool else tool["name"] for tool in tools]


def switch(conversation: Conversation, mode: str) -> None:
    conversation.append(ModeSwitch(mode=mode), expected=conversation.position)


def test_a_mode_is_sent_the_tools_that_are_its_own_and_a_mode_without_a_list_all() -> None:
    with stenolog.open(":memory:") as log:
        talk = log["talk"]
        crew("Hello.").ask_sync(talk, "Hi")
        seen = {}
        for mode in ("chat", "agent", "run", "chat"):
            if mode != talk.settings().mode:
                switch(talk, mode)
            seen[mode] = names(talk)

    assert seen == {"chat": [], "agent": ["look"], "run": ["look", "write"]}


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "anthropic", "gemini"])
def test_a_tool_that_was_called_stays_declared_and_says_that_the_mode_has_it_not(api: str) -> None:
    with stenolog.open(":memory:") as log:
        talk = log["talk"]
        team = crew("Hello.", ToolCall(id="c1", name="look"), "Seen.")
        team.ask_sync(talk, "Hi")
        switch(talk, "agent")
        team.ask_sync(talk, "Look")
        switch(talk, "chat")
        talk.append(UserMessage(text="So?"))
        request = talk.request("crew", api=api)

    assert "Not available in this mode" in request.bytes.decode()
    assert "write" not in request.bytes.decode()
    assert not refused(api, request.body)


def test_a_call_of_a_tool_that_the_mode_has_not_is_answered_and_not_run() -> None:
    RAN.clear()
    with stenolog.open(":memory:") as log:
        talk = log["talk"]
        crew(ToolCall(id="c1", name="write"), "I may not.").ask_sync(talk, "Write")
        results = [entry.event for entry in talk.entries() if isinstance(entry.event, ToolResult)]

    assert RAN == []
    assert [(r.is_error, r.text) for r in results] == [
        (True, "the tool 'write' may not be called in mode 'chat'")
    ]


def test_a_loop_of_ones_own_runs_no_tool_that_the_mode_has_not() -> None:
    RAN.clear()
    with stenolog.open(":memory:") as log:
        talk = log["talk"]
        talk.join("crew", tools=[look, write], policy=IN)
        switch(talk, "agent")
        talk.append(UserMessage(text="Go"))
        calls = [ToolCall(id="c1", name="write"), ToolCall(id="c2", name="look")]
        talk.append(stenolog.AssistantMessage(agent="crew", tool_calls=calls))
        made = run_calls(talk, "crew", [look, write])

    assert RAN == ["look"]
    assert [entry.event.is_error for entry in made if isinstance(entry.event, ToolResult)] == [True, False]


def test_a_budget_holds_with_the_tools_of_each_mode() -> None:
    with stenolog.open(":memory:") as log:
        talk = log["talk"]
        crew("Hello.", policy=IN | Budget(messages=4, tokens=400)).ask_sync(talk, "Hi")
        for mode in ("agent", "run"):
            switch(talk, mode)
            assert talk.request("crew").size.tokens <= 400


def test_a_mode_with_a_tool_that_the_agent_does_not_have_is_refused() -> None:
    with pytest.raises(CallerError) as error:
        crew("Hello.", policy=Prompt(tools_in={"chat": [], "agent": ["lok"]}))

    told = "tools_in of mode 'agent': expected one of look, write, found 'lok'; did you mean 'look'?"
    assert str(error.value) == f"agent 'crew': {told}"
    with pytest.raises(CallerError, match="expected none, since it has no tools, found 'look'"):
        Team([Agent("crew", llm=Scripted("Hi"), policy=IN)])


class Box(Toolset):
    """A server of tools that may be away."""

    def __init__(self, *names: str) -> None:
        self.names = names

    async def open(self) -> list[BaseTool]:
        if not self.names:
            raise ToolError("the server is away")
        return [tool(look)]

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("box", "warned"),
    [(Box(), False), (Box("look"), True)],
    ids=["a server that is away", "a server that is there"],
)
def test_a_tool_of_a_server_may_be_missing_while_the_server_is_away(
    box: Box, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    policy = Prompt(tools_in={"agent": ["look", "lokk"]})
    team = Team([Agent("crew", llm=Scripted("Hi"), tools=[box], policy=policy)])
    with stenolog.open(":memory:") as log, caplog.at_level("WARNING"):
        team.ask_sync(log["talk"], "Hi")

    assert ("crew: tools_in of mode 'agent': expected one of look, found 'lokk'" in caplog.text) == warned
