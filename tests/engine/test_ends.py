"""However an effect ends, the log says truly how: nothing that came of it is lost, nothing is made up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import Team, ToolResult, UserMessage
from stenolog.adapters.engine.journal.live_state import enqueue
from stenolog.adapters.engine.model_calls.model_call import StreamDraft, keep_drafts, load_draft
from stenolog.adapters.engine.runner import tool_run
from stenolog.adapters.engine.runner.tool_run import GOES_ON
from stenolog.adapters.store.claims import Claims
from stenolog.adapters.tools.base import RetrySafety
from stenolog.adapters.tools.results import result_of
from stenolog.domain.errors import StoreTimeoutError
from stenolog.domain.lanes.decide import CANCELLED
from stenolog.domain.lanes.effects import UNKNOWN, unknown_outcome
from stenolog.domain.values import Control
from stenolog.engine import Agent, StreamDelta
from stenolog.events import CallRef
from stenolog.models import ResponseDelta, Scripted
from stenolog.tools import BaseTool, tool
from tests.engine.given import call, errors, opened, outline, results, run, run_team
from tests.postgres.crash_points import crash_points


class TestDrafts:
    """What streams while the store is busy."""

    @pytest.fixture
    def busy(self, monkeypatch: pytest.MonkeyPatch) -> list[object]:
        """Refuse every draft, and count the attempts."""
        tried: list[object] = []

        def refuse(claims: Claims, said: object) -> None:
            tried.append(said)
            raise StoreTimeoutError("another program holds the write lock")

        monkeypatch.setattr(Claims, "draft", refuse)
        return tried

    def test_what_could_not_be_kept_is_kept_the_next_time(self) -> None:
        written: list[bytes] = []
        draft = StreamDraft(1)

        def refuse(said: object) -> None:
            raise StoreTimeoutError("busy")

        draft.add(ResponseDelta(0, "text", "one "))
        with pytest.raises(StoreTimeoutError):
            keep_drafts([draft], refuse)
        draft.add(ResponseDelta(0, "text", "two"))
        for _ in range(2):
            keep_drafts([draft], lambda said: written.extend(text for _, text in said))

        assert load_draft(written) == draft.drafted
        assert len(written) == 1

    def test_a_draft_that_cannot_be_written_ends_no_run(self, tmp_path: Path, busy: list[object]) -> None:
        model = Scripted("one two three four five six", piece=4, pause=0.05)
        with opened(tmp_path / "t.db") as conversation:
            run(run_team(Team([Agent("coder", llm=model)]), conversation, "Count"))

            assert outline(conversation)[-1] == ("assistant_message", "one two three four five six")
        assert len(busy) > 1

    def test_a_run_that_is_stopped_then_keeps_all_that_was_heard(
        self, tmp_path: Path, busy: list[object]
    ) -> None:
        heard: list[str] = []

        async def listen_a_little() -> None:
            running = Team([Agent("coder", llm=model)]).run(conversation, "Count")
            async for happened in running:
                heard.extend([happened.text] if isinstance(happened, StreamDelta) else [])
                if len(busy) > 1:
                    break
            await running.aclose()

        model = Scripted("word " * 500, piece=5, pause=0.01)
        with opened(tmp_path / "t.db") as conversation:
            run(listen_a_little())

            [error] = errors(conversation)
        assert error.category == "cancelled"
        assert error.text == "".join(heard)


class TestTools:
    """A tool that is cancelled, or whose run is stopped, while it is at work or right after."""

    async def cut(
        self, made: BaseTool, begun: asyncio.Event, how: Callable[[Team, asyncio.Task[Any]], Awaitable[None]]
    ) -> None:
        team = Team([Agent("coder", llm=self.model, tools=[made])])
        working = asyncio.create_task(run_team(team, self.conversation, "Pay"))
        await begun.wait()
        await how(team, working)
        await asyncio.wait({working})

    @pytest.fixture(autouse=True)
    def opened_conversation(self, tmp_path: Path) -> Iterator[None]:
        self.model = Scripted(call("pay"), "I see.")
        with opened(tmp_path / "t.db") as self.conversation:
            yield

    async def cancel(self, team: Team, working: asyncio.Task[Any]) -> None:
        await team.cancel(self.conversation)

    async def stop(self, team: Team, working: asyncio.Task[Any]) -> None:
        working.cancel()

    def stubborn(self, begun: asyncio.Event, error: Exception | None = None) -> BaseTool:
        """Return a tool that has paid when it is cancelled."""

        @tool
        async def pay() -> str:
            """Pay."""
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if error is not None:
                    raise error from None
            return "receipt 4711"

        return pay

    def test_what_a_cancelled_tool_gives_all_the_same_stands_where_it_arrived(self) -> None:
        async def main() -> None:
            begun = asyncio.Event()
            await self.cut(self.stubborn(begun), begun, self.cancel)

        run(main())
        first, second = results(self.conversation)

        assert [first.text, second.text] == [CANCELLED, "receipt 4711"]
        assert first.call == second.call
        assert self.conversation.state().lane("coder").status == "idle"
        run(run_team(Team([Agent("coder", llm=self.model)]), self.conversation, "What came of it?"))
        assert "receipt 4711" in str(self.model.prompts[-1].body)

    def test_what_a_tool_gives_when_the_run_is_stopped_is_its_result(self) -> None:
        async def main() -> None:
            begun = asyncio.Event()
            await self.cut(self.stubborn(begun), begun, self.stop)

        run(main())

        assert [(result.text, result.is_error) for result in results(self.conversation)] == [
            ("receipt 4711", False)
        ]
        run(run_team(Team([Agent("coder", llm=self.model)]), self.conversation))
        assert outline(self.conversation)[-1] == ("assistant_message", "I see.")

    def test_a_tool_that_fails_since_the_run_is_stopped_has_an_unknown_outcome(self) -> None:
        async def main() -> None:
            begun = asyncio.Event()
            await self.cut(self.stubborn(begun, OSError("closed")), begun, self.stop)

        run(main())

        assert [result.meta for result in results(self.conversation)] == [UNKNOWN]

    @pytest.mark.parametrize(("repeat", "note"), [("never", [GOES_ON]), ("safe", [])])
    def test_of_a_cancelled_tool_in_a_thread_the_log_says_that_it_goes_on_where_that_changes_something(
        self, repeat: RetrySafety, note: list[str]
    ) -> None:
        gate = threading.Event()

        async def main() -> None:
            begun, loop = asyncio.Event(), asyncio.get_running_loop()

            @tool(repeat=repeat)
            def pay() -> str:
                """Pay."""
                loop.call_soon_threadsafe(begun.set)
                gate.wait(10)
                return "receipt 4711"

            await self.cut(pay, begun, self.cancel)

        try:
            run(main())
        finally:
            gate.set()

        assert [result.text for result in results(self.conversation)] == [CANCELLED, *note]
        run(run_team(Team([Agent("coder", llm=self.model)]), self.conversation, "What came of it?"))
        assert (GOES_ON in str(self.model.prompts[-1].body)) == bool(note)

    def test_a_result_that_is_being_recorded_is_recorded_though_the_run_is_stopped(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gate = threading.Event()

        async def main() -> None:
            begun, loop = asyncio.Event(), asyncio.get_running_loop()

            def slow(*args: Any, **options: Any) -> ToolResult:
                loop.call_soon_threadsafe(begun.set)
                gate.wait(10)
                return result_of(*args, **options)

            async def stop(team: Team, working: asyncio.Task[Any]) -> None:
                working.cancel()
                await asyncio.sleep(0.05)
                gate.set()

            monkeypatch.setattr(tool_run, "result_of", slow)
            await self.cut(tool(lambda: "receipt 4711", name="pay"), begun, stop)

        run(main())

        assert [result.text for result in results(self.conversation)] == ["receipt 4711"]


class TestAsk:
    """`on_unknown="ask"`: after a crash in a call that may not be run again, the lane waits for a person."""

    @pytest.fixture(autouse=True)
    def crashed(self, tmp_path: Path) -> Iterator[None]:
        """Yield a conversation whose runner was killed while its tool ran."""
        paid: list[str] = []

        @tool
        def pay() -> str:
            """Pay."""
            paid.append("paid")
            return "paid"

        def begin(log: stenolog.Log) -> None:
            team = Team([Agent("coder", llm=Scripted(call("pay"), "Done."), tools=[pay])])
            run(run_team(team, log["demo"], "Pay"))

        points = crash_points(begin, tmp_path, world=lambda: len(paid))
        path = next(point.path for point in points if point.world)
        paid.clear()
        self.model = Scripted("I went on.", endless=True)
        self.team = Team([Agent("coder", llm=self.model, tools=[pay])], on_unknown="ask")
        with opened(path) as self.conversation:
            yield
            assert paid == []
            assert len(results(self.conversation)) == 1

    def waits(self) -> bool:
        """Return whether the lane has asked, and no model since."""
        return self.conversation.state().lane("coder").status == "failed" and not self.model.prompts

    def test_the_lane_says_what_to_do_and_waits(self) -> None:
        run(run_team(self.team, self.conversation))
        [error] = errors(self.conversation)

        assert self.waits()
        assert (error.category, error.retry_at) == ("process_exited", None)
        assert "what came of 'pay'" in error.message
        assert "say how to go on, or continue" in error.message
        assert run(run_team(self.team, self.conversation)) == []

    @pytest.mark.parametrize("how", ["words", "continue", "continue by name"])
    def test_a_person_who_says_so_or_continues_has_it_go_on(self, how: str) -> None:
        run(run_team(self.team, self.conversation))
        if how == "words":
            run(run_team(self.team, self.conversation, "It was paid; go on"))
        else:
            run(self.team.resume(self.conversation, **({"agent": "coder"} if how != "continue" else {})))
            run(run_team(self.team, self.conversation))

        assert outline(self.conversation)[-1] == ("assistant_message", "I went on.")
        assert self.conversation.state().lane("coder").status == "idle"

    @pytest.mark.parametrize(
        "message",
        [
            UserMessage(text="It is noon", author_kind="system"),
            UserMessage(text="And you?", to=["other"]),
            UserMessage(control=Control(action="approve", call=CallRef(entry="elsewhere", index=0))),
            UserMessage(control=Control(action="continue", agent="other")),
            UserMessage(control=Control(action="continue", agent="coder", task="other")),
            enqueue(UserMessage(text="And then something else")),
        ],
        ids=[
            "the system",
            "words to another",
            "an approval",
            "another's continue",
            "a task's",
            "queued words",
        ],
    )
    @pytest.mark.parametrize("asked", [False, True], ids=["before it has asked", "after"])
    def test_nothing_else_is_an_answer(self, message: UserMessage, asked: bool) -> None:
        [(_, waiting)] = self.conversation.state().open_calls()
        self.conversation.append(unknown_outcome(waiting, "it died"))
        if asked:
            run(run_team(self.team, self.conversation))
        heard_later = asked and not message.in_context  # it was written once the lane had asked
        self.conversation.append(message)
        run(run_team(self.team, self.conversation))

        assert self.waits() is not heard_later
