"""Asking a model again: within its budget, once for each answer, also after a kill."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import ToolCall, UserMessage
from stenolog.adapters.asking import Asking, estimate
from stenolog.analysis import Price
from stenolog.engine import Judge, Panel, RetryPolicy, Runtime
from stenolog.errors import CallerError
from stenolog.events import AssistantMessage, Usage
from stenolog.models import Anthropic, Model, ModelError, ModelRequest, ModelResponse, Scripted
from stenolog.parts import TextPart
from stenolog.projections.analysis.retry import ModelQuestion, ModelReply, cases, question, retried
from stenolog.testing import crash_points
from tests.llms import wire_anthropic
from tests.llms.server import Reply as ServerReply
from tests.llms.server import Server, failure
from tests.random_cases import seeds

PRICES = (Price("model-1", 1.0, 1.0, 10.0),)
ANTHROPIC = (Price("claude-*", 1.0, 1.0, 10.0),)


class Provider(Model):
    """A provider that bills a dollar per million input tokens, ten for output, and counts what it billed."""

    name = "model-1"

    def __init__(self, fails: Callable[[ModelRequest], str] = lambda prompt: "", seed: int = 0) -> None:
        self.prompts: list[ModelRequest] = []
        self.billed = 0
        self.under_way = self.most_under_way = 0
        self._fails, self._chance = fails, random.Random(seed)

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[Any, None]:
        yield prompt.outgoing()
        self.prompts.append(prompt)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        # Tokens are at most the bytes, and it may write as much as it is allowed.
        tokens, said = self._chance.randint(1, len(str(prompt.body))), self._chance.randint(1, 100)
        await asyncio.sleep(0.001)
        self.under_way -= 1
        if category := self._fails(prompt):
            if category in ("timeout", "invalid_response"):
                self.billed += tokens + 10 * said
            raise ModelError(category, "as planned")
        self.billed += tokens + 10 * said
        call = ToolCall(id=f"c{len(self.prompts)}", name="look", arguments="{}")
        yield ModelResponse((call,), usage=Usage(input=tokens, output=said))


def questions(calls: int = 4) -> list[ModelQuestion]:
    """Return the calls of a conversation as questions, as they were recorded."""
    with stenolog.open(":memory:") as log:
        talk = log["demo"]
        talk.join("coder", model="model-1", parameters={"max_tokens": 100})
        for number in range(calls):
            talk.append(UserMessage(f"Look at {number}."))
            request = talk.request("coder")
            usage = Usage(input=10, output=5)
            talk.append(AssistantMessage(f"{number}", agent="coder", usage=usage, receipt=request.receipt))
        entries = [*talk]
        return [
            question(each.case, each.now, "model-1")
            for each in retried(cases(entries), entries)
            if each.now is not None
        ]


async def no_wait(seconds: float) -> None:
    await asyncio.sleep(0)


def asked(
    log: stenolog.Log, model: Model, given: Sequence[ModelQuestion], **options: Any
) -> list[ModelReply]:
    """Ask, and return all replies."""

    async def all_replies() -> list[ModelReply]:
        chosen = {"budget_micro_usd": None, "prices": PRICES, "world": Runtime(sleep=no_wait)} | options
        times = chosen.pop("times", 2)
        async with Asking(model, answers=log, **chosen) as asking:
            return [reply async for reply in asking.replies(given, times)]

    return asyncio.run(all_replies())


def test_each_answer_is_asked_for_once_and_kept() -> None:
    given, model = questions(), Provider()
    with stenolog.open(":memory:") as log:
        before = estimate(given, model, 2, log, PRICES)
        replies = asked(log, model, given)
        after = estimate(given, model, 2, log, PRICES)
        again = asked(log, model, given, times=3)
    assert (before.calls, before.kept, after.calls, after.kept) == (8, 0, 0, 8)
    assert before.likely
    assert before.micro_usd is not None
    assert model.billed < before.micro_usd
    assert Counter((each.question.key, each.number) for each in replies) == Counter(
        (each.key, number) for each in given for number in (1, 2)
    )
    assert after.spent == sum(each.micro_usd or 0 for each in replies) <= model.billed
    assert len(again) == 12
    assert len(model.prompts) == 12, "the first two of each were kept"
    assert len({prompt.key for prompt in model.prompts}) == 12, "no call has the key of another"


def test_equal_requests_are_asked_once_and_answer_all_their_questions() -> None:
    (one,), model = questions(1), Provider()
    with stenolog.open(":memory:") as log:
        replies = asked(log, model, [one, one._replace(variant="shorter")])
    assert len(model.prompts) == 2
    assert Counter(each.question.variant for each in replies) == {"": 2, "shorter": 2}


@seeds(fast=12, slow=150)
def test_no_budget_is_passed_whatever_fails(seeds: range) -> None:
    given = questions()
    for seed in seeds:
        chance = random.Random(seed)
        categories = ["", "", "", "timeout", "rate_limited", "invalid_response", "overloaded", "refused"]
        model = Provider(lambda prompt, c=chance, k=categories: c.choice(k), seed)  # type: ignore[misc]
        at_once, budget = chance.randint(1, 5), chance.randint(0, 40_000)
        with stenolog.open(":memory:") as log:
            for _ in range(3):  # a next start has no budget of its own
                asked(log, model, given, times=3, budget_micro_usd=budget, at_once=at_once)
                assert model.billed <= budget, f"seed {seed}"
        assert model.most_under_way <= at_once


def test_what_fails_as_it_would_again_is_an_answer_and_an_outage_ends_the_asking() -> None:
    given = questions()
    with stenolog.open(":memory:") as log:
        refused = asked(log, Provider(lambda prompt: "refused"), given)
        assert all(each.error and each.is_final for each in refused)
        assert len(refused) == 8
        down = Provider(lambda prompt: "network")
        left = asked(log, down, given, times=3, retries=RetryPolicy(attempts={"network": 2}), at_once=1)
        assert [each.is_final for each in left] == [True] * 8 + [False] * 3
        assert len(down.prompts) == 3 * 2, "three were each tried again once, and then nothing else"
        refusing = Provider(lambda prompt: "unauthorized")
        asked(log, refusing, given, times=3, at_once=1)
        assert len(refusing.prompts) == 1
        assert len(asked(log, Provider(), given, times=3)) == 12


def test_a_call_is_named_before_it_is_priced_or_sent() -> None:
    given = questions(1)
    with stenolog.open(":memory:") as log:
        with pytest.raises(CallerError, match="no price is known, so no budget can be kept"):
            asked(log, Provider(), given, budget_micro_usd=5, prices=(Price("other", 1, 1, 1),))
        with pytest.raises(CallerError, match="expected a model of the API openai-chat, found one of plain"):
            asked(log, Scripted("Yes.", api="plain"), given)
        assert len(log) == 0
        free = asked(log, Scripted("Yes.", "No."), given, budget_micro_usd=0)
    assert [each.micro_usd for each in free] == [0, 0]


def test_after_any_crash_only_what_was_under_way_is_asked_again(tmp_path: Path) -> None:
    given, model = questions(2), Provider()
    budget = 1_000_000

    def run(log: stenolog.Log) -> None:
        asked(log, model, given, at_once=2, budget_micro_usd=budget)

    for point in crash_points(run, tmp_path, world=lambda: (len(model.prompts), model.billed)):
        calls, billed = point.world
        with stenolog.open(point.path) as log:
            next_model = Provider()
            replies = asked(log, next_model, given, budget_micro_usd=budget)
            spent = estimate(given, next_model, 2, log, PRICES).spent
        assert Counter((each.question.key, each.number) for each in replies) == Counter(
            (each.key, number) for each in given for number in (1, 2)
        )
        assert calls + len(next_model.prompts) <= 4 + 2, point.when
        assert billed + next_model.billed <= spent <= budget, point.when


def test_a_model_judges_within_the_same_budget_and_its_words_are_kept() -> None:
    given, provider = questions(2), Provider()
    judging = Scripted('Well: {"as_good": true}', "Perhaps.", name="judge")
    with stenolog.open(":memory:") as log:
        for _ in range(2):  # the second asks nobody

            async def verdicts() -> Any:
                judge = Judge("model:x", model=judging)
                options: Any = {"budget_micro_usd": 10_000, "prices": PRICES, "at_once": 1}
                async with Panel(provider, log, judge=judge, **options) as panel:
                    return await panel.verdicts(given, 2), panel.missing

            found, missing = asyncio.run(verdicts())
            assert [*found.values()] == [[True, True], [None, None]]  # equal answers are judged once
            assert missing == 0
    assert (len(provider.prompts), judging.remaining) == (4, 0)
    shown = judging.prompts[0].body["messages"][-1]["content"]
    assert all(part in shown for part in ("Look at 0.", "<recorded>\n0\n</recorded>", "look({})"))


def test_answers_of_another_model_do_not_count_and_what_is_free_needs_no_budget() -> None:
    given, paid = questions(2), Provider()
    free = Scripted("Yes.", endless=True)
    with stenolog.open(":memory:") as log:
        assert len(asked(log, paid, given, budget_micro_usd=10_000)) == 4

        async def verdicts(missing: int) -> Any:
            async with Panel(free, log, via="scripted:yes", budget_micro_usd=0) as panel:
                assert panel.estimate(given, 2)[:2] == (missing, 4 - missing)
                return await panel.verdicts(given, 2), panel.missing, panel.asking.spent

        for due in (4, 0):
            found, missing, spent = asyncio.run(verdicts(due))
            assert ([*found.values()], missing, spent) == ([[True, True]] * 2, 0, 0)
        assert len(free.prompts) == 4
        assert len(asked(log, paid, given, budget_micro_usd=0)) == 4, "kept ones cost nothing more"
        assert len(paid.prompts) == 4


def test_answers_of_another_day_are_noticed() -> None:
    today = [datetime(2026, 11, 1, tzinfo=UTC)]
    given = questions(2)
    with stenolog.open(":memory:", clock=lambda: today[0]) as log:

        async def days(number: int) -> int:
            async with Panel(Provider(), log, prices=PRICES) as panel:
                await panel.verdicts(given[:number], 1)
                return panel.days_apart

        assert asyncio.run(days(1)) == 0
        today[0] += timedelta(days=20, hours=3)
        assert asyncio.run(days(1)) == 0
        assert asyncio.run(days(2)) == 20


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        yield made


def test_a_real_client_sends_what_the_other_program_sent_and_the_proof_is_kept(
    server: Server, tmp_path: Path
) -> None:
    key, name = "sk-ant-0123456789abcdef", "claude-opus-5"
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": f"busy, {key}"}}
    usage = Usage(input=20, output=3)
    answer = ModelResponse((TextPart(text="Ada."),), name, "end_turn", usage)
    server.add(failure(529, overloaded), ServerReply(wire_anthropic.frames(answer)))
    (one,) = questions(1)
    body = {
        "model": name,
        "max_tokens": 100,
        "stream": True,  # as the other program sent it
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": "Who?"}],
        "metadata": {"user_id": "u1"},
        "new_field": {"of": "a later day"},
    }
    request = replace(one.request, api="anthropic@1", messages_key="messages").with_body(body, None)
    asked_again = question(one.case, request, name)
    model = Anthropic(name, base_url=server.url, api_key=key)
    with stenolog.open(tmp_path / "answers.db") as log:
        (reply,) = asked(log, model, [asked_again], times=1, budget_micro_usd=1_000_000, prices=ANTHROPIC)
        outcomes = [entry.event for entry in log[asked_again.key]][1:]
    sent = server.received[-1]
    assert sent.body == body
    assert reply.message is not None
    assert (reply.message.text, reply.micro_usd) == ("Ada.", 20 + 3 * 10)
    assert reply.message.receipt is not None
    assert reply.message.receipt.sent == sha256(sent.content).hexdigest()
    assert [getattr(each, "category", "") for each in outcomes] == ["overloaded", ""]
    assert key.encode() not in (tmp_path / "answers.db").read_bytes()


KILLED = """
import asyncio, sys
from pathlib import Path
sys.path[:0] = [{root!r}]
import stenolog
from tests.analysis.test_asking import Provider, asked, questions

class Slow(Provider):
    async def stream(self, prompt):
        with Path({calls!r}).open("a") as file:
            file.write(prompt.key + "\\n")
        print(len(self.prompts), flush=True)
        await asyncio.sleep(0.02)
        async for piece in super().stream(prompt):
            yield piece

with stenolog.open({db!r}) as log:
    asked(log, Slow(), questions(), times=5, at_once=3, budget_micro_usd=1_000_000)
"""


def test_a_killed_process_loses_only_what_was_under_way(tmp_path: Path) -> None:
    db, calls, root = tmp_path / "answers.db", tmp_path / "calls", Path(__file__).parents[2]
    script = KILLED.format(root=str(root), calls=str(calls), db=str(db))
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while int(process.stdout.readline()) < 6:
        pass
    os.kill(process.pid, signal.SIGKILL)
    process.stdout.close()
    process.wait()
    made = calls.read_text().split()
    given, model = questions(), Provider()
    with stenolog.open(db) as log:
        kept = estimate(given, model, 5, log, PRICES).kept
        replies = asked(log, model, given, times=5, budget_micro_usd=1_000_000)
        assert not log.claims()
    assert kept > 0
    assert len(made) - 3 <= kept <= len(made) < 20
    assert len(replies) == 20
    assert len(model.prompts) == 20 - kept
    assert not {prompt.key for prompt in model.prompts} & {*made}, "a repetition has another key"


def test_a_second_process_does_not_ask_for_the_same_answers() -> None:
    given = questions(1)

    class Other(Provider):
        """A provider that is asked once more, by another, before it answers."""

        async def stream(self, prompt: ModelRequest) -> AsyncGenerator[Any, None]:
            with pytest.raises(CallerError, match="another process is asking"):
                async with Asking(Provider(), **options) as another:
                    await anext(another.replies(given, 1))
            async for piece in super().stream(prompt):
                yield piece

    with stenolog.open(":memory:") as log:
        options: Any = {"budget_micro_usd": None, "answers": log, "prices": PRICES}
        (reply,) = asked(log, Other(), given, times=1)
    assert reply.message
