"""Counters by name: the estimate, and tiktoken's encodings; no test needs a network.

The encodings are real ones of tiktoken, made of a few ranks of our own.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from tiktoken import registry

import stenolog
from benchmarks import tokens as foretold
from stenolog import AgentCard, AssistantMessage, ModeSwitch, UserMessage
from stenolog.adapters.conversation.queries.requests import token_counters
from stenolog.adapters.conversation.queries.requests.rates import JSON, rates_of
from stenolog.adapters.conversation.queries.requests.token_counters import (
    COUNTERS,
    PIECE,
    tiktoken_counter,
)
from stenolog.adapters.store.reading import reader
from stenolog.context import Budget, policy
from stenolog.domain.erasure import ERASED
from stenolog.domain.errors import InvalidPolicyError
from stenolog.errors import MissingExtraError
from stenolog.events import Origin, PositionRange, Unknown, Usage
from stenolog.parts import ReasoningPart, TextPart
from stenolog.projections.formats import FORMATS
from stenolog.projections.messages.explanation import tokens_of
from stenolog.projections.messages.sizes import COUNTERS as ESTIMATES
from stenolog.projections.messages.sizes import OVERHEAD, PLAIN, Rate, count_parts
from stenolog.projections.requests import LaneId, build
from stenolog.projections.requests.lane_rates import LaneRates
from stenolog.projections.requests.pipeline.bills import TRUST, usual
from stenolog.projections.requests.proofs import proofs
from stenolog.testing import entries
from tests.random_cases import seeds
from tests.requests.corpus import TRANSCRIPTS
from tests.requests.histories import history

MERGES = [b"th", b"the", b" the", b"er", b"\xd0\xb0"]
RANKS = {bytes([n]): n for n in range(256)} | {merge: 256 + nth for nth, merge in enumerate(MERGES)}
PATTERN = r" ?\p{L}+|\s+|[^\s\p{L}]+"
END = "<|endoftext|>"


def small(name: str = "small") -> dict[str, Any]:
    """Return the data of an encoding of 261 tokens and a special one."""
    special = {END: len(RANKS)}
    return {"name": name, "pat_str": PATTERN, "mergeable_ranks": RANKS, "special_tokens": special}


SMALL = tiktoken.Encoding(**small())


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Yield the encodings that tiktoken knows of: only those that a test puts in here."""
    known: dict[str, Any] = {"small": small}
    monkeypatch.setattr(registry, "ENCODING_CONSTRUCTORS", known)
    monkeypatch.setattr(registry, "ENCODINGS", {})
    token_counters._loaded.cache_clear()
    yield known
    token_counters._loaded.cache_clear()


def test_the_estimate_is_there_without_tiktoken() -> None:
    assert COUNTERS["bytes4"] is ESTIMATES["bytes4"]


def test_an_encoding_counts_its_tokens_and_its_id_has_its_version(plugins: dict[str, Any]) -> None:
    counter = COUNTERS["tiktoken:small"]

    assert counter.id == f"tiktoken:small@{tiktoken.__version__}"
    assert [counter.count(text) for text in ("", "the", " the the", "theer", "\u0430", "\u0431")] == [
        0,
        1,
        2,
        2,
        1,
        2,
    ]
    assert COUNTERS["tiktoken:small"] is counter


def test_the_names_are_those_that_could_be_asked_for(plugins: dict[str, Any]) -> None:
    assert list(COUNTERS) == ["bytes4", "learned", "tiktoken:small"]
    assert len(COUNTERS) == 3
    assert "tiktoken:small" in COUNTERS
    assert "tiktoken:large" not in COUNTERS


@pytest.mark.parametrize("name", ["", "bytes", "tiktoken", "tiktoken:", "tiktoken:large", "TIKTOKEN:small"])
def test_an_unknown_counter_is_refused_with_those_that_are_known(plugins: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidPolicyError) as caught:
        COUNTERS[name]

    assert str(caught.value) == f"counter {name!r}: expected one of bytes4, learned, tiktoken:small"


def test_without_tiktoken_the_error_is_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    token_counters._loaded.cache_clear()

    with pytest.raises(MissingExtraError, match=r'pip install "stenolog\[tiktoken\]"'):
        COUNTERS["tiktoken:small"]
    with pytest.raises(
        InvalidPolicyError, match=r'one of bytes4, learned, and with "stenolog\[tiktoken\]" tiktoken:<enc'
    ):
        COUNTERS["bytes5"]
    assert list(COUNTERS) == ["bytes4", "learned"]


@pytest.mark.parametrize("error", [OSError("no route to host"), ValueError("Hash mismatch"), KeyError("x")])
def test_an_encoding_that_cannot_be_downloaded_says_how_to_provide_it(
    plugins: dict[str, Any], error: Exception
) -> None:
    def unreachable() -> None:
        raise error

    plugins["far"] = unreachable

    with pytest.raises(
        InvalidPolicyError, match=r"'tiktoken:far': its file is not here .*TIKTOKEN_CACHE_DIR"
    ) as caught:
        COUNTERS["tiktoken:far"]
    assert type(error).__name__ in str(caught.value)
    plugins["far"] = lambda: small("far")
    assert COUNTERS["tiktoken:far"].count("the") == 1  # the failure is not remembered


def test_a_download_that_never_ends_is_given_up(
    plugins: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = Event()

    def slow() -> dict[str, Any]:
        go_on.wait()
        return small("slow")

    plugins["slow"] = slow
    monkeypatch.setattr(token_counters, "PATIENCE_S", 0.01)

    try:
        with pytest.raises(InvalidPolicyError, match=r"cannot be downloaded \(TimeoutError\)"):
            COUNTERS["tiktoken:slow"]
    finally:
        go_on.set()


def test_what_looks_like_a_special_token_is_text(plugins: dict[str, Any]) -> None:
    assert COUNTERS["tiktoken:small"].count(END) == len(SMALL.encode(END, disallowed_special=())) > 1


@given(st.text(st.characters(exclude_categories=[])))
def test_any_text_can_be_counted_and_costs_a_token_a_byte_at_most(text: str) -> None:
    counted = tiktoken_counter(SMALL).count(text)

    assert counted == len(SMALL.encode_ordinary(text)) <= len(text.encode(errors="replace")) * 3


def test_a_long_text_is_counted_in_pieces_at_the_cost_of_a_few_tokens() -> None:
    text = "the theer " * 10_000
    exact, counted = len(SMALL.encode_ordinary(text)), tiktoken_counter(SMALL).count(text)

    assert exact <= counted <= exact + 2 * (len(text) // PIECE + 1)


def test_a_text_is_tokenized_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Noting:
        name = "noting"

        def encode_ordinary(self, text: str) -> list[int]:
            asked.append(text)
            return [0] * len(text)

    counter = tiktoken_counter(Noting())  # type: ignore[arg-type]
    text = "a" * PIECE + "b" * 10

    assert [counter.count(text), counter.count(text), counter.count("b" * 10)] == [PIECE + 10, PIECE + 10, 10]
    assert asked == ["a" * PIECE, "b" * 10]


def test_tiktoken_is_imported_by_whoever_asks_for_it_alone() -> None:
    code = (
        "import sys; from stenolog.adapters.conversation.queries.requests import token_counters as c; "
        "c.COUNTERS['bytes4']; "
        "print('tiktoken' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "False"


def session(
    ratio: float, turns: int = 40, *, prompt: int = 20_000, model: str = "m", seed: int = 1
) -> list[Any]:
    """Return another program's events, each answer billed `ratio` times the estimate beside its prompt."""
    random, size = Random(seed), 0
    made: list[Any] = [ModeSwitch(joins=["coder"], source=Origin(system="made"))]
    for number in range(turns):
        for words in (1, random.randint(0, 400)):
            made.append(UserMessage(text=f"{number} {'word ' * words}"))
            size += count_parts(made[-1].parts) + OVERHEAD
        used = Usage(input=prompt + round(ratio * size), output=9)
        made.append(AssistantMessage(agent="coder", text="said " * 30, model=model, usage=used, source=MADE))
        size += count_parts(made[-1].parts) + OVERHEAD
    return made


MADE = Origin(system="made")
LANE = LaneId("coder")


def rates(events: Sequence[Any]) -> LaneRates:
    return LaneRates(LANE).extend(entries(*events))


def per_cent(rate: Rate) -> int:
    return round(100 * rate.billed / rate.estimated)


@pytest.mark.parametrize("ratio", [0.6, 1.0, 1.42, 2.5])
def test_the_rate_comes_to_be_that_of_the_bills_whatever_the_log_lacks(ratio: float) -> None:
    for prompt in (0, 60_000):
        assert abs(per_cent(rates(session(ratio, prompt=prompt)).at(10**6)) - 100 * ratio) <= 3


@pytest.mark.parametrize("signature", ["", "S" * 4_000])
def test_signed_thinking_counts_as_it_is_billed_and_cuts_no_more(signature: str) -> None:
    thought = ReasoningPart(provider="anthropic", text="t", signature=signature)
    said: list[Any] = [ModeSwitch(cards={"bot": AgentCard(model="claude-sonnet-4-5")}, joins=["bot"])]
    for turn in range(1, 40):
        said += [
            UserMessage(text="w " * 200),
            AssistantMessage(
                agent="bot",
                model="claude-sonnet-4-5",
                parts=[thought, TextPart(text="yes")],
                usage=Usage(input=150 * turn),
            ),
        ]
    request = build(
        entries(*said), "bot", api="anthropic", policy=policy(Budget(tokens=10_000, counter="learned"))
    )

    assert request.cuts == 0
    assert abs(request.size.tokens - 150 * 39) < 0.1 * 150 * 39
    assert sum(part.tokens_out for part in request.parts if part.rule == "own") < 39 * 10


def test_each_family_of_models_has_its_rate_and_a_new_one_that_of_its_provider() -> None:
    both = rates([*session(1.2), *session(2.0, model="n-2")[1:]])

    assert abs(per_cent(both.at(10**6)) - 200) <= 5
    assert abs(per_cent(both.at(100)) - 120) <= 5
    assert usual("claude-opus-9") == Rate(TRUST * FORMATS["anthropic"].billed // 100, TRUST)
    assert usual("m") == PLAIN


@pytest.mark.parametrize(
    "between",
    [
        ModeSwitch(context_from=60),
        AssistantMessage(
            agent="coder", purpose="summary", covers=[PositionRange(first=2, last=60)], text="."
        ),
        AssistantMessage(agent="coder", text="Not billed.", model="m", source=MADE),
        AssistantMessage(agent="coder", text="Less.", model="m", usage=Usage(input=9), source=MADE),
        AssistantMessage(agent="coder", text="A sum.", model="m", usage=Usage(input=10**7), source=MADE),
    ],
    ids=["reset", "compaction", "unbilled", "less", "more"],
)
def test_what_is_no_growth_teaches_nothing(between: Any) -> None:
    events = session(1.5)
    before = rates(events).at(10**6)

    assert rates([*events, between]).at(10**6) == before
    assert abs(per_cent(rates([*events, between, *session(1.5, seed=2)[1:]]).at(10**6)) - 150) <= 3


def test_an_erased_answer_is_an_unbilled_one() -> None:
    log = entries(*session(1.5))
    log[-6] = log[-6]._replace(event=Unknown(topic=ERASED, payload=b"{}", ignorable=True))

    assert abs(per_cent(LaneRates(LANE).extend(log).at(10**6)) - 150) <= 3


@seeds(20, slow=300)
def test_no_later_entry_changes_a_rate_and_none_is_beyond_its_bounds(seeds: range) -> None:
    for seed in seeds:
        log = [entry._replace(event=_foreign(entry.event)) for entry in history(seed, longest=30)]
        whole = LaneRates(LANE).extend(log)
        for position in range(len(log) + 1):
            rate = whole.at(position)
            part = LaneRates(LANE).extend(log[:position])
            assert rate == part.at(position)
            kept = JSON.load(JSON.dump(part.learned))
            shown = [log[at - 1] for first, last in kept.snapshot.rows for at in range(first, last + 1)]
            later = LaneRates(LANE).resume(kept, part.digest, shown).extend(log[position:])
            assert later.learned == whole.learned
            assert rate.estimated <= 2 * rate.billed <= 8 * rate.estimated


def _foreign(event: Any) -> Any:
    is_answer = isinstance(event, AssistantMessage)
    return replace(event, source=MADE, receipt=None) if is_answer else event


def test_a_budget_as_billed_holds_what_is_billed_and_is_proved() -> None:
    budget = policy(Budget(tokens=9_000, counter="learned"))
    events: list[Any] = [
        ModeSwitch(joins=["coder"], cards={"coder": AgentCard(model="m", policy=budget.json)})
    ]
    sizes = []
    for event in session(1.5, prompt=0)[1:]:
        if isinstance(event, AssistantMessage):
            request = build(entries(*events), "coder")
            assert request.size.tokens <= 9_000
            estimated = tokens_of(request.estimated.parts)
            sizes.append((request.cuts, estimated))
            event = replace(
                event, receipt=request.receipt, source=None, usage=Usage(input=estimated * 3 // 2)
            )
        events.append(event)

    assert max(size for cuts, size in sizes if cuts > 1) <= 6_100
    assert request.counted_by == request.receipt.counter == "learned@1"
    assert {proof.outcome for proof in proofs(entries(*events))} == {"same"}


@pytest.mark.slow
@pytest.mark.skipif(not TRANSCRIPTS.is_dir(), reason="the recorded sessions are not beside this checkout")
def test_the_bills_before_a_request_foretell_its_own() -> None:
    assert [row.line() for row in foretold.run() if not row.ok] == []


def test_another_process_reads_no_entry_that_the_rates_were_learned_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    whole = reader.entries

    def watched(*asked: Any) -> Iterator[Any]:
        for entry in whole(*asked):
            read.append(entry.position)
            yield entry

    monkeypatch.setattr(reader, "entries", watched)
    with stenolog.open(tmp_path / "log.db") as log:
        log["talk"].extend(session(1.5))
        before = rates_of(log["talk"], LANE)
        assert before is not None
        log["talk"].fork(name="fork")
        assert len(read) > len(log["talk"])
    for name in ("talk", "fork"):
        with stenolog.open(tmp_path / "log.db") as log:
            read.clear()
            found = rates_of(log[name], LANE)

            assert found is not None
            assert len(read) <= 3
            positions = range(found.position)
            assert [*map(found.at, positions)] == [*map(before.at, positions)]


def test_the_rates_of_a_log_go_on_with_new_entries_and_forget_erased_ones(tmp_path: Path) -> None:
    events = session(1.5)
    with stenolog.open(tmp_path / "log.db") as log:
        talk = log["talk"]
        for some in (events[:50], events[50:]):
            talk.extend(some)
            found = rates_of(talk, LANE)
            assert found is not None
            before = found.at(10**6)
            assert before == LaneRates(LANE).extend(talk.entries()).at(10**6)
        talk.erase(talk.position)
        found = rates_of(talk, LANE)

        assert found is not None
        assert found.at(10**6) == LaneRates(LANE).extend(talk.entries()).at(10**6) != before
        assert rates_of(talk, LANE) is found
