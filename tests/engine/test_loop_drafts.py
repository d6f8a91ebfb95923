"""A loop of one's own that is killed in mid-answer goes on with the half answer."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, LlmError, UserMessage
from stenolog.models import calling, recover

LOOP = """
import sys, time, stenolog
from stenolog.models import calling

def chunks():
    for text in ("Once ", "upon ", "a time"):
        yield {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": text}}]}
        time.sleep(0.05)
    time.sleep(600)

with stenolog.open(sys.argv[1]) as log:
    chat = log["chat"]
    with calling(chat, chat.request("guide")) as call:
        for chunk in call.stream(chunks()):
            pass
"""


def begun(path: Path) -> None:
    with stenolog.open(path) as log:
        log["chat"].join("guide", model="gpt-5.2")
        log["chat"].append(UserMessage("Tell me a story."))


def drafted(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("SELECT group_concat(said, '') FROM drafts").fetchone()[0] or "")


def chunk(text: str, finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return {"object": "chat.completion.chunk", "choices": [choice]}


def test_a_loop_that_was_killed_in_mid_answer_goes_on_with_the_half_answer(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    begun(path)
    child = subprocess.Popen([sys.executable, "-c", LOOP, str(path)])
    try:
        while "a time" not in drafted(path):
            assert child.poll() is None
            time.sleep(0.05)
        with stenolog.open(path) as log:
            assert recover(log["chat"]) == 0, "its process lives"
            assert [claim.alive for claim in log.claims()] == [True]
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    with stenolog.open(path) as log:
        chat = log["chat"]
        assert recover(chat) == 1
        assert (recover(chat), log.claims(), drafted(path)) == (0, [], "")
        error, request = chat[-1].event, chat.request("guide")
        assert isinstance(error, LlmError)
        assert (error.text, error.category, error.attempt) == ("Once upon a time", "process_exited", 1)
        assert request.sendable
        assert request.body["messages"][-2] == {"role": "assistant", "content": "Once upon a time"}
        with calling(chat, request) as call:
            list(call.stream(iter([chunk(", they lived.", "stop")])))
        assert getattr(chat[-1].event, "text", "") == ", they lived."


@pytest.mark.parametrize("fails", [False, True])
def test_a_draft_goes_with_what_came_of_its_call(fails: bool, tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    begun(path)

    def chunks() -> Iterator[dict[str, Any]]:
        yield chunk("Once ")
        while "Once" not in drafted(path):
            time.sleep(0.01)
        if fails:
            raise ConnectionError("gone")
        yield chunk("upon", "stop")

    with stenolog.open(path) as log:
        chat = log["chat"]
        try:
            with calling(chat, chat.request("guide")) as call:
                list(call.stream(chunks()))
        except ConnectionError:
            assert fails
        assert isinstance(chat[-1].event, LlmError if fails else AssistantMessage)
        assert (log.claims(), drafted(path)) == ([], "")


def test_with_asyncio_the_draft_is_kept_beside_the_loop(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    begun(path)

    async def chunks() -> AsyncIterator[dict[str, Any]]:
        yield chunk("Once ")
        while "Once" not in drafted(path):
            await asyncio.sleep(0.01)
        yield chunk("upon", "stop")

    async def tell() -> None:
        async with stenolog.open_async(path) as log:
            talk = log["chat"]
            async with calling(talk, await talk.request("guide")) as call:
                async for _ in call.stream(chunks()):
                    pass

    asyncio.run(tell())
    with stenolog.open(path) as log:
        assert (getattr(log["chat"][-1].event, "text", ""), log.claims(), drafted(path)) == (
            "Once upon",
            [],
            "",
        )
