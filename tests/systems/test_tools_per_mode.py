"""System 2: each mode has the tools that its rules allow, in the request and in what is run."""

from __future__ import annotations

from typing import Any

import pytest

import stenolog
from stenolog import Agent, Conversation, ModeSwitch, Team, ToolCall, ToolResult, UserMessage
from stenolog.context import Budget, Prompt
from stenolog.errors import CallerError, ToolError
from stenolog.models import Scripted
from stenolog.tools import BaseTool, Toolset, run_calls, tool
from tests.requests.judging import refused

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
