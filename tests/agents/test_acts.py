"""What a program does by itself: an event while it happens, a sign of life, and kept whatever happens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, LlmError
from stenolog.adapters.agents.answer_buffer import ResponseBuilder
from stenolog.adapters.agents.output_formats import OUTPUT_FORMATS
from stenolog.adapters.agents.output_parser import LinesParser
from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.model_calls.model_call import StreamDraft, load_draft
from stenolog.context import LastN, Reminder
from stenolog.context import SinceLastTurn as Only
from stenolog.domain.errors import ModelError
from stenolog.domain.parts import ProviderPart, TextPart
from stenolog.domain.values import Usage
from stenolog.engine import Agent, Replay, RetryPolicy, StreamDelta, Team
from stenolog.models import Model, ModelRequest, ModelResponse, Progress, ResponseDelta, StreamItem, Timeouts
from stenolog.projections.views.acts import act_in_words
from tests import virtual_time

ACT = json.dumps({"type": "note", "text": "edit a.py"}, separators=(",", ":"))
DONE = ProviderPart(provider="command-line", raw=ACT)
ONCE = RetryPolicy(attempts={})
PATIENCE_SECONDS = 60.0


class Working(Model):
    """A backend that remembers, and gives what stands in its script; its prompts are kept."""

    provider, api, remembers, name = "x", "plain", True, "worker"

    def __init__(
        self, *script: Sequence[StreamItem | float | ModelError], timeouts: Timeouts | None = None
    ) -> None:
        self.script = list(script)
        self.prompts: list[ModelRequest] = []
        self.timeouts = timeouts or Timeouts()

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        self.prompts.append(prompt)
        for each in self.script.pop(0):
            match each:
                case ModelError():
                    raise each
                case float():
                    await asyncio.sleep(each)
                case _:
                    yield each


def answer(words: str = "done", session: str = "s1", **more: Any) -> ModelResponse:
    return ModelResponse((TextPart(text=words),), "m", "stop", session=session, **more)


def said(model: Model, conversation: Conversation, *texts: str, **options: Any) -> list[Any]:
    """Return all entries and deltas while the agent answers each text."""

    async def work() -> list[Any]:
        agent = Agent("dev", llm=model, **{"retries": ONCE} | options)
        async with Team([agent]) as team:
            return [each for text in texts async for each in team.run(conversation, text)]

    return virtual_time.run(work(), PATIENCE_SECONDS)


def ends(conversation: Conversation) -> list[Any]:
    return [e.event for e in conversation.entries() if isinstance(e.event, AssistantMessage | LlmError)]


def act() -> ResponseDelta:
    return ResponseDelta(0, "act", ACT, "command-line")


def test_a_call_that_fails_keeps_what_was_done_its_session_and_its_usage(conversation: Conversation) -> None:
    progress = Progress("s1", "m", Usage(input=5, cost=7))
    model = Working([progress, act(), ModelError("other", "max turns")])

    happened = said(model, conversation, "Go")

    (error,) = ends(conversation)
    assert (error.parts, error.session, error.model) == ((DONE,), "s1", "m")
    assert error.usage == Usage(input=5, cost=7)
    assert [(each.kind, act_in_words(each.text)) for each in happened if isinstance(each, StreamDelta)] == [
        ("act", "note: edit a.py")
    ]


def test_a_draft_of_a_dead_engine_has_what_was_done_and_how_far_the_call_had_come() -> None:
    draft = StreamDraft(1)
    draft.add(act())
    draft.progress = Progress("s1", "m", Usage(input=5), "12:b:3:m")
    first, mark = draft.unkept()
    draft.keep(mark)
    draft.add(act()._replace(text='{"type":"note","text":"edit b.py"}'))
    second, _ = draft.unkept()

    found = load_draft([first, second])

    assert [part.raw for part in found.parts if isinstance(part, ProviderPart)] == [
        '{"type":"note","text":"edit b.py"}'
    ]
    assert found.progress == draft.progress


def test_acts_and_progress_are_signs_of_life(conversation: Conversation) -> None:
    pauses: list[StreamItem | float | ModelError] = [act(), 0.2, act(), 0.2, Progress(), 0.2, act(), 0.2]
    model = Working([*pauses, answer()], timeouts=Timeouts(first_token=0.4, idle=0.4))

    said(model, conversation, "Go")

    assert [event.kind for event in ends(conversation)] == ["assistant_message"]


def test_progress_alone_is_no_first_piece(conversation: Conversation) -> None:
    model = Working([Progress("s1"), 0.3, answer()], timeouts=Timeouts(first_token=5.0, idle=0.1))

    said(model, conversation, "Go")

    assert [event.kind for event in ends(conversation)] == ["assistant_message"]


def test_a_session_goes_on_after_a_call_that_failed_in_it(conversation: Conversation) -> None:
    model = Working([Progress("s1"), ModelError("other", "no")], [answer()])

    said(model, conversation, "One", "Two")

    assert [prompt.session for prompt in model.prompts] == ["", "s1"]


def test_what_was_done_in_an_answer_that_failed_is_told_to_a_new_session(conversation: Conversation) -> None:
    model = Working([act(), ModelError("process_exited", "gone")], [answer()])

    said(model, conversation, "One", "Two")

    assert "[did note: edit a.py]" in model.prompts[-1].body["prompt"]


def test_a_backend_that_remembers_is_told_what_is_new_and_its_persona_once(
    conversation: Conversation,
) -> None:
    model = Working(*([answer()] for _ in range(3)))

    said(model, conversation, "One", "Two", persona="You are Dev.")
    conversation.submit(stenolog.ModeSwitch(context_from=conversation.position + 1))
    said(model, conversation, "Three", persona="You are Dev.")

    assert [(prompt.body["prompt"], prompt.session) for prompt in model.prompts] == [
        ("System: You are Dev.\n\nUser: One", ""),
        ("User: Two", "s1"),
        ("System: You are Dev.\n\nUser: Three", ""),
    ]


def test_a_changed_persona_is_told_to_the_session_that_has_the_old_one(conversation: Conversation) -> None:
    model = Working([answer()], [answer()])

    said(model, conversation, "One", persona="You are Dev.")
    said(model, conversation, "Two", persona="You are Eve.")

    assert model.prompts[-1].body["prompt"] == "System: You are Eve.\n\nUser: Two"


def test_a_policy_that_tells_everything_resumes_no_session(conversation: Conversation) -> None:
    model = Working([answer()], [answer()])

    said(model, conversation, "One", "Two", policy=LastN(50))

    assert [prompt.session for prompt in model.prompts] == ["", ""]


def test_a_reminder_repeats_no_persona_that_stands_above_it(conversation: Conversation) -> None:
    model = Working([answer()], [answer()], [ModelError("process_exited", "gone")], [answer()])
    policy = Only() | Reminder(every=1, text="Be brief.")

    said(model, conversation, "One", "Two", "Three", "Four", persona="You are Dev.", policy=policy)

    prompts = [prompt.body["prompt"] for prompt in model.prompts]
    assert [prompt.count("You are Dev.") for prompt in prompts] == [1, 1, 1, 1]


def test_usage_that_counts_the_whole_session_is_recorded_by_difference(conversation: Conversation) -> None:
    totals = [Usage(input=10, output=2), Usage(input=25, output=5), Usage(input=3, output=1)]
    sessions = ["s1", "s1", "s2"]
    model = Working(
        *([answer(session=s, usage=u, usage_is_total=True)] for s, u in zip(sessions, totals, strict=True))
    )

    said(model, conversation, "One", "Two", "Three")

    assert [event.usage for event in ends(conversation)] == [totals[0], Usage(input=15, output=3), totals[2]]


def test_a_recorded_run_of_a_backend_that_remembers_has_the_same_requests(conversation: Conversation) -> None:
    said(Working([act(), answer()], [answer()]), conversation, "One", "Two", persona="You are Dev.")
    again = conversation.log["again"]

    async def replayed() -> None:
        agent = Agent("dev", llm=Working(), persona="You are Dev.", retries=ONCE)
        recording = Replay(conversation)
        async with Team([recording.agent(agent)]) as team:
            for text in ("One", "Two"):
                async for _ in team.run(again, text):
                    pass

    asyncio.run(replayed())

    assert [event.parts for event in ends(again)] == [event.parts for event in ends(conversation)]


def heard(format: str, *lines: dict[str, Any]) -> ResponseBuilder:
    ear = LinesParser(ResponseBuilder(format, resumes=True), OUTPUT_FORMATS[format].read)
    ear.feed("".join(f"{json.dumps(line)}\n" for line in lines).encode())
    return ear.turn


def test_words_that_claude_code_makes_up_for_an_error_were_not_said() -> None:
    made_up = {"model": "<synthetic>", "content": [{"type": "text", "text": "API Error: 500"}]}

    turn = heard("claude-code", {"type": "assistant", "message": made_up})

    assert (turn.answer.parts, turn.model) == ((), "")


def test_a_session_that_claude_code_does_not_find_is_a_backend_that_is_gone() -> None:
    line = {"type": "result", "subtype": "error_during_execution", "is_error": True, "session_id": "s2"}

    with pytest.raises(ModelError) as raised:
        heard("claude-code", line | {"errors": ["No conversation found with session ID: s1"]})

    assert raised.value.category == "process_exited"


def test_claude_code_counts_its_tokens_while_it_works_and_says_what_it_costs() -> None:
    def event(**told: Any) -> dict[str, Any]:
        return {"type": "stream_event", "event": told, "session_id": "s1"}

    begun = {"id": "m1", "usage": {"input_tokens": 3, "cache_read_input_tokens": 20, "output_tokens": 1}}
    turn = heard(
        "claude-code",
        event(type="message_start", message=begun),
        event(type="message_delta", usage={"output_tokens": 7}),
        event(type="message_start", message={"id": "m2", "usage": {"input_tokens": 4, "output_tokens": 1}}),
    )

    assert turn.progress.usage == Usage(input=27, output=8, cache_read=20)
    turn.costs(0.0125)
    assert turn.progress == Progress("s1", "", Usage(input=27, output=8, cache_read=20, cost=12_500))


def test_what_a_sub_agent_does_is_kept_and_what_it_says_is_not() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "rm x"}}
    content = [{"type": "text", "text": "I tidy up."}, call]

    turn = heard(
        "claude-code", {"type": "assistant", "message": {"content": content}, "parent_tool_use_id": "t0"}
    )

    assert [
        json.loads(part.raw)["parent_tool_use_id"]
        for part in turn.answer.parts
        if isinstance(part, ProviderPart)
    ] == ["t0"]
    assert len(turn.answer.parts) == 1


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        ({"type": "tool_use", "name": "Bash", "input": {"command": "ls\n-l"}}, "Bash: ls -l"),
        ({"type": "command_execution", "command": "ls"}, "command: ls"),
        ({"type": "file_change", "changes": [{"path": "a.py"}]}, "file change: a.py"),
        ({"type": "mcp_tool_call", "server": "git", "tool": "log", "arguments": {}}, "git.log"),
        ({"toolCallId": "t1", "title": "List files", "rawInput": {"cmd": "ls"}}, "List files: ls"),
        ({"toolCallId": "t1", "title": "Run ls", "rawInput": {"cmd": "ls"}}, "Run ls"),
        ({"toolCallId": "t1", "title": "Think"}, "Think"),
        ({"type": "tool_result", "content": "x"}, ""),
        ({"type": "note", "text": "x" * 500}, "note: " + "x" * 153 + "…"),
    ],
)
def test_an_act_is_a_line_of_words(thing: dict[str, Any], words: str) -> None:
    assert act_in_words(json.dumps(thing)) == words
