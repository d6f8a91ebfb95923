"""What a provider's API is for the tests of all: its model, its stream, and what answers consist of.

Each `wire_ROOM.py` has one, as `API`, and is found by the name of its format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

from hypothesis import strategies as st

from stenolog import TextPart, ToolCall
from stenolog.events import Usage
from stenolog.models import Model, ModelResponse
from stenolog.parts import ProviderPart, ReasoningPart, RefusalPart
from stenolog.projections.messages.body_digest import compact
from tests.llms.server import Server

KEY = "sk-test-0123456789abcdef"
TOKENS = Usage(input=120, output=30, cache_read=100, reasoning=20)
WORDS = st.text(min_size=1, max_size=40).filter(str.strip)
NAMES = st.text("abc_1", min_size=1, max_size=5)
CALLS = st.builds(
    ToolCall,
    id=NAMES,
    name=NAMES,
    arguments=st.dictionaries(NAMES, st.text(max_size=9), max_size=3).map(compact),
)
CUSTOM = st.builds(ToolCall, id=NAMES, name=NAMES, arguments=WORDS, form=st.just("custom"))
TEXTS = st.builds(TextPart, text=WORDS)
REFUSALS = st.builds(RefusalPart, text=WORDS)
DONE = TextPart(text="Done.")
Parts = st.SearchStrategy[list[Any]]


class Refused(NamedTuple):
    """An error by its status, in the words of a provider, with its category and the seconds to wait."""

    status: int
    body: Mapping[str, Any]
    category: str
    wait: float | None = None


class Broke(NamedTuple):
    """An event that says "Oh" of an error in mid-stream, with its category and its status."""

    frame: bytes
    category: str
    status: int = 0


class Api(NamedTuple):
    """A provider's API: its model, and how the server streams an answer, or gives it whole.

    It also has the finish reasons of a complete answer and of one that is withheld.

    `hurried` are the options of an SDK that waits 50 ms. Answers consist of `parts`, and end as in `ends`;
    `said` are the messages of a whole
    answer, as a program's history has them, and `asked` is a user's by which the format is known. Where an
    answer does not say its model, `says_model` is False. `tokens` are such as it counts. `refused` are errors
    that tell more than their status, and `broke` those in mid-stream. `client` opens an SDK's client that
    tries again, if a model takes one. After `before` frames (None: all) it has said that it used `told`.
    """

    model: Callable[..., Model]
    name: str
    frames: Callable[..., Iterator[bytes]]
    whole: Callable[[ModelResponse], dict[str, Any]]
    finish: str
    kept_back: str
    parts: Parts
    ends: tuple[str, ...]
    said: Callable[[dict[str, Any]], list[dict[str, Any]]]
    asked: Mapping[str, Any] = {"role": "user", "content": "Look."}
    root: str = ""
    says_model: bool = True
    tokens: Usage = TOKENS
    hurried: Mapping[str, Any] = {"timeout": 0.05}
    refused: tuple[Refused, ...] = ()
    broke: tuple[Broke, ...] = ()
    client: Callable[[str], AbstractAsyncContextManager[Any]] | None = None
    before: int | None = None
    told: Usage = TOKENS

    def at(self, server: Server, **options: Any) -> Model:
        """Return the model at the server."""
        return self.model(self.name, base_url=server.url + self.root, **{"api_key": KEY, **options})

    def answer(self, *parts: Any, **fields: Any) -> ModelResponse:
        """Return a whole answer of this API."""
        return ModelResponse(
            parts, self.name, **{"finish_reason": self.finish, "usage": self.tokens, **fields}
        )


def signed(provider: str) -> st.SearchStrategy[ReasoningPart]:
    return st.builds(ReasoningPart, text=WORDS, provider=st.just(provider), signature=NAMES)


def opaque(kind: str, **fields: str) -> st.SearchStrategy[ProviderPart]:
    raw = st.dictionaries(NAMES, WORDS, max_size=2).map(lambda raw: compact({kind: "new", **raw}))
    return st.builds(ProviderPart, raw=raw, **{name: st.just(value) for name, value in fields.items()})


def several(*kinds: st.SearchStrategy[Any]) -> Parts:
    return st.lists(st.one_of(*kinds), max_size=4).map(lambda parts: [*parts, DONE])


def groups(*kinds: Parts) -> Parts:
    """Return lists of parts one after the other."""
    return st.tuples(*kinds).map(lambda found: [part for parts in found for part in parts])


def maybe(part: st.SearchStrategy[Any]) -> Parts:
    return st.lists(part, max_size=1)
