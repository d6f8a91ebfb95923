"""Pages after an erasure: by this process, or by another while the pages were open."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

import stenolog
from stenolog import AssistantMessage, ToolCall, ToolResult, UserMessage
from stenolog.adapters.conversation.queries import folds
from stenolog.adapters.conversation.queries.overviews import OVERVIEW
from stenolog.adapters.store.sidecar.checkpoints import Checkpoints
from stenolog.apps.inspect import index_cache
from stenolog.apps.inspect.background import Later
from stenolog.apps.inspect.index_cache import STORED, IndexCache
from stenolog.apps.inspect.reading import markup
from stenolog.apps.views.cost_table import CostTable

from .hostile import addresses

WORDS = ("quince", "medlar", "damson", "bullace")
"""The words that are erased: a message's, an argument's, a result's, a brief's."""
CACHES = [cached for cached in vars(markup).values() if hasattr(cached, "cache_info")]
ERASED = (2, 3, 4, 5, 6)


@pytest.fixture
def log(db: Path) -> Iterator[stenolog.Log]:
    with stenolog.open(db) as opened:
        talk = opened["demo"]
        talk.join("coder", model="gpt-5.2")
        find = ToolCall(id="1", name="find", arguments=json.dumps({"command": "find medlar"}))
        task = ToolCall(id="2", name="Task", arguments=json.dumps({"prompt": "Count each bullace."}))
        events: list[stenolog.Event] = [
            UserMessage("Where is the quince?", to=["coder"]),
            AssistantMessage(agent="coder", parts=[find]),
            ToolResult(call_id="1", name="find", text="In damson.py."),
            AssistantMessage(agent="coder", parts=[task]),
            UserMessage("Count each bullace.", author="coder", author_kind="agent", to=["scout"]),
            AssistantMessage(agent="scout", text="Seven."),
            ToolResult(call_id="2", name="Task", text="Seven."),
            AssistantMessage(agent="coder", text="There are seven."),
        ]
        talk.extend(events, expected=talk.position)
        yield opened


def _seen(web: TestClient) -> dict[str, set[str]]:
    """Return the words of `WORDS` that each page and part of a page has, and ask for each of them."""
    found = {}
    for address in [
        *addresses("demo", "coder"),
        *(f"/piece/demo?of=scout&at={at}" for at in (6, 7)),
        *(f"/card/demo?at={at}" for at in ERASED),
        *("/outline/demo", "/read/demo?of=scout", "/conversations", "/c/demo?at=9"),
    ]:
        answer = web.get(address)
        assert answer.status_code in (200, 400, 404), (address, answer.text[-300:])
        found[address] = {word for word in WORDS if word in answer.text}
    return found


def _erase(log: stenolog.Log, db: Path, *, elsewhere: bool) -> None:
    if elsewhere:
        with stenolog.open(db) as other:
            other["demo"].erase(*ERASED)
    else:
        log["demo"].erase(*ERASED)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_no_page_has_a_word_that_was_erased(
    web: TestClient, log: stenolog.Log, db: Path, *, elsewhere: bool
) -> None:
    before = _seen(web)
    assert set().union(*before.values()) == set(WORDS)
    assert "quince" in str(gc.get_referents(*CACHES))
    _erase(log, db, elsewhere=elsewhere)
    assert {address: words for address, words in _seen(web).items() if words} == {}
    assert not [word for word in WORDS if word in str(gc.get_referents(*CACHES))]
    assert {urlsplit(address).path for address in before if web.get(address).status_code == 200} >= {
        "/read/demo",
        "/piece/demo",
        "/card/demo",
        "/outline/demo",
        "/c/demo",
    }


@pytest.mark.parametrize("elsewhere", [False, True])
def test_an_index_has_no_erased_word_in_memory_or_beside_the_log(
    log: stenolog.Log, db: Path, monkeypatch: pytest.MonkeyPatch, *, elsewhere: bool
) -> None:
    monkeypatch.setattr(index_cache, "WORTH_KEEPING", 1)
    cache, talk = IndexCache(), log["demo"]
    has_word = re.compile("|".join(WORDS).encode()).search

    assert has_word(cache.of(talk).dump())
    assert has_word(folds.load_checkpoint(talk, STORED, None)[0].dump())
    _erase(log, db, elsewhere=elsewhere)
    assert not has_word(cache.of(talk).dump())
    assert not has_word(folds.load_checkpoint(talk, STORED, None)[0].dump())
    log.close()
    assert [path.name for path in db.parent.iterdir() if has_word(path.read_bytes())] == []


@pytest.mark.parametrize(
    "read",
    [
        lambda talk: IndexCache().of(talk),
        lambda talk: CostTable(talk.log, ()).update(),
        lambda talk: folds.fold_at(talk, OVERVIEW),
    ],
    ids=["index", "costs", "fold"],
)
def test_what_is_kept_during_an_erasure_does_not_stay(
    log: stenolog.Log, db: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Any], object]
) -> None:
    put, kept = Checkpoints.put, []

    def erase_before(self: Checkpoints, key: int, fold: str, *given: Any) -> None:
        monkeypatch.setattr(Checkpoints, "put", put)
        kept.append(fold)
        _erase(log, db, elsewhere=True)
        put(self, key, fold, *given)

    monkeypatch.setattr(index_cache, "WORTH_KEEPING", 1)
    monkeypatch.setattr(folds, "WORTH_KEEPING", 1)
    monkeypatch.setattr(Checkpoints, "put", erase_before)
    read(log["demo"])
    talk = log["demo"]
    assert kept
    assert kept[0] not in talk.log.checkpoints.names(talk.key or 0)


def test_a_value_that_takes_long_and_is_made_during_an_erasure_is_not_kept() -> None:
    later, goes, begun = Later(), Event(), Event()

    def work() -> str:
        begun.set()
        goes.wait(10)
        return "quince"

    assert later.get("cost", 1, work, 0) is None
    begun.wait(10)
    later.forget()
    goes.set()
    assert later.get("cost", 1, lambda: "erased", 10) == "erased"
    assert later.get("cost", 1, work, 0) == "erased"
