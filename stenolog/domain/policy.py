"""Context policies: the part of a conversation that an agent is shown, as small rules joined by `|`.

    LastN(50) | Budget(tokens=16_000) | Pins(tags=("goal",))

A policy says what is wanted, `projections.requests` what it means. A card has it as JSON, one key a rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from .base.model import Many, Natural, Positive, construct, non_default_fields, rule
from .base.registry import Registry
from .errors import InvalidPolicyError

T = TypeVar("T")
DEFAULT_COUNTER = "bytes4"
"""The counter of tokens if a policy names none: a documented estimate that needs nothing installed."""


class PolicyRule:
    """One rule of a policy. `slot` is its key; `words` are fields with defaults that an erasure removes."""

    __slots__ = ()
    slot: ClassVar[str]
    words: ClassVar[tuple[str, ...]] = ()

    def fault(self) -> str:
        """Return an error message if the fields contradict each other, or ""."""
        return ""

    @property
    def json(self) -> dict[str, Any]:
        """The policy of this one rule, as in a card."""
        return policy(self).json

    def __or__(self, other: PolicyLike) -> Policy:
        return policy(self) | other

    def __ror__(self, other: PolicyLike) -> Policy:
        return policy(other) | self


class History(PolicyRule):
    """The part of the conversation that is sent; `kind` names it in JSON.

    `window` is the number of messages shown (None: all), and the step of a cut when there are more. `keeps`
    are the purposes that no cut removes, `delta` says whether what the agent's backend has is left out.
    """

    __slots__ = ()
    slot: ClassVar[str] = "history"
    kind: ClassVar[str]
    version: ClassVar[int] = 1
    keeps: ClassVar[tuple[str, ...]] = ()
    delta: ClassVar[bool] = False

    @property
    def window(self) -> tuple[int | None, int]:
        return None, 1

    def fault(self) -> str:
        """Return the fault of a step larger than the window, which would leave no message."""
        most, step = self.window
        return "" if most is None or step <= most else f"expected a step of at most {most}, found {step}"


@rule
class FullHistory(History):
    """Everything that the agent may see."""

    kind: ClassVar[str] = "full"


@rule
class SinceLastTurn(History):
    """The entries since the agent's own last turn, for a backend that remembers the earlier ones.

    The full history is sent again after a dead backend, a changed session, a reset, a rewind, or an imported
    answer.
    """

    kind: ClassVar[str] = "delta"
    delta: ClassVar[bool] = True


@rule
class LastN(History):
    """The last `n` messages; an answer with its calls and results is never cut in two.

    The cut moves in steps of `step` messages. With 1 it moves at each turn, which costs the provider's
    prompt cache at each turn; `Budget(messages=n)` moves it rarely.
    """

    kind: ClassVar[str] = "last"
    n: Positive
    step: Positive = 1

    @property
    def window(self) -> tuple[int | None, int]:
        return self.n, self.step


@rule
class Recent(History):
    """The last `recent` messages, beside what is always kept; the cut moves in steps of `step`."""

    recent: Positive = 20
    step: Positive = 1

    @property
    def window(self) -> tuple[int | None, int]:
        return self.recent, self.step


@rule
class SinceLastTurnOrRecent(Recent):
    """As `SinceLastTurn`; a new session is given summaries, facts and the last `recent` messages."""

    kind: ClassVar[str] = "delta-recent"
    keeps: ClassVar[tuple[str, ...]] = ("summary", "memory")
    delta: ClassVar[bool] = True


@rule
class SummaryAndRecent(Recent):
    """Every summary for the agent, and the last `recent` messages; the cut moves in steps of `step`."""

    kind: ClassVar[str] = "summary"
    keeps: ClassVar[tuple[str, ...]] = ("summary",)


@rule
class MemoriesAndRecent(Recent):
    """Every fact that the agent keeps (`purpose="memory"`), and the last `recent` messages."""

    kind: ClassVar[str] = "memory"
    keeps: ClassVar[tuple[str, ...]] = ("memory",)


@rule
class Pins(PolicyRule):
    """Entries that no budget removes, by position, by author, or by tag.

    `authors` are names of agents and other authors; `person`, `system` and `schedule` are those without one.
    """

    slot: ClassVar[str] = "pins"
    positions: Many[Positive] = ()
    authors: Many[str] = ()
    tags: Many[str] = ()


@rule
class Budget(PolicyRule):
    """The maximum size of a request, in one or several of messages, characters, tokens and bytes.

    A message counts with the 8 tokens that an API may add to it, so many short ones are cut early. `reserve`
    (tokens) is kept free for the text around the conversation: by default its size, and at least a 32nd of
    the budget. `counter` counts tokens: "bytes4", "learned" from what the agent was billed, or
    "tiktoken:<encoding>" with the extra `tiktoken`. `cut_to` is the part of its room that a cut leaves, in
    per cent; by default a third.
    """

    slot: ClassVar[str] = "budget"
    tokens: Positive | None = None
    messages: Positive | None = None
    characters: Positive | None = None
    bytes: Positive | None = None
    reserve: Natural | None = None
    counter: str = DEFAULT_COUNTER
    cut_to: Positive | None = None

    def fault(self) -> str:
        """Return the fault of a budget without a limit, or not above its reserve."""
        if (self.tokens, self.messages, self.characters, self.bytes) == (None,) * 4:
            return "expected tokens, messages, characters or bytes, found none of them"
        if self.reserve is not None and self.reserve >= (self.tokens or self.reserve + 1):
            return f"expected a reserve below its {self.tokens} tokens, found {self.reserve}"
        if self.cut_to is not None and self.cut_to > 100:
            return f"expected cut_to from 1 to 100 per cent, found {self.cut_to}"
        return ""


@rule
class TruncateToolOutput(PolicyRule):
    """Tool output of more than `over` tokens is shown as its first `head` and last `tail` tokens.

    Between them is the alias by which all of it can be read.
    """

    slot: ClassVar[str] = "compact"
    over: Positive = 1_000
    head: Natural = 200
    tail: Natural = 100


@rule
class Attribution(PolicyRule):
    """Headings over `others`, such as `💬 {name}:` (empty: delimiters), and over the `user`'s own words.

    `role` is that of other agents; as "assistant" they are the agent itself. A `pass_token` of others is not
    shown, without `own_passes` none.
    """

    slot: ClassVar[str] = "voices"
    others: str = ""
    pass_token: str = ""
    user: str = ""
    role: Literal["user", "system", "assistant"] = "user"
    own_passes: bool = True


@rule
class MissedMessages(PolicyRule):
    """A title over messages since the agent's last turn that were not addressed to it."""

    slot: ClassVar[str] = "away"
    words: ClassVar[tuple[str, ...]] = ("title",)
    title: str = "MESSAGES WHILE YOU WERE AWAY"


@rule
class Reminder(PolicyRule):
    """After every `every` answers that were no passes: the persona, the pinned words, and `text`."""

    slot: ClassVar[str] = "reminder"
    words: ClassVar[tuple[str, ...]] = ("text",)
    every: Positive
    text: str = ""
    persona: bool = True
    pins: bool = True


@rule
class Transforms(PolicyRule):
    """Rules of an application's own, by name and in order; `stenolog.context.register_transform` adds one."""

    slot: ClassVar[str] = "rewrites"
    names: Many[str] = ()


@rule
class Prompt(PolicyRule):
    """The instructions around the conversation, beside the persona.

    `base` and `tools` (how to use tools) never change and come first. `modes` has rules for each mode, and
    `banner` is a line with `{mode}` in it. Both come last, so that a mode switch keeps the prompt cache, or,
    with `place` "first", before the conversation. The persona is shown only in the modes of `persona_in`, and
    in all modes if that is empty. `tools_in` has the names of the tools of a mode; a mode not in it has all.
    `cut_note` shows where messages were cut, `scope_note` what part is shown.
    """

    slot: ClassVar[str] = "instructions"
    words: ClassVar[tuple[str, ...]] = ("base", "tools", "modes", "banner")
    base: str = ""
    tools: str = ""
    modes: dict[str, str] = field(default_factory=dict)
    banner: str = ""
    persona_in: Many[str] = ()
    tools_in: dict[str, list[str]] = field(default_factory=dict)
    place: Literal["first", "last"] = "last"
    cut_note: bool = False
    scope_note: bool = False


EVERYTHING: History = construct(FullHistory)
_HISTORIES = (FullHistory, SinceLastTurn, LastN, SinceLastTurnOrRecent, SummaryAndRecent, MemoriesAndRecent)
HISTORIES: Registry[type[History]] = Registry("a history", {each.kind: each for each in _HISTORIES})
"""Every history by its kind; an application's own are added by `register_history`."""
H = TypeVar("H", bound=type[History])


def register_history(cls: H) -> H:
    """Register a history by its kind, at the start of a program, so that a card can name it.

    Raises `CallerError` if another history has the kind.
    """
    HISTORIES.add(cls.kind, cls)
    return cls


_RULES = (Pins, Budget, TruncateToolOutput, Attribution, Transforms, MissedMessages, Reminder, Prompt)
RULES: Mapping[str, type[PolicyRule]] = MappingProxyType({each.slot: each for each in _RULES})
"""Every other rule by its slot."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A whole policy: one rule or None in each slot. Made by `policy(…)` or by `|`.

    `chosen` is the history that was asked for, `history` the one that counts: by default everything.
    `pipeline` is the version of the pipeline that applies it; None: the newest.
    """

    chosen: History | None = None
    pins: Pins | None = None
    budget: Budget | None = None
    compact: TruncateToolOutput | None = None
    voices: Attribution | None = None
    rewrites: Transforms | None = None
    away: MissedMessages | None = None
    reminder: Reminder | None = None
    instructions: Prompt | None = None
    pipeline: str | None = None

    def __or__(self, other: PolicyLike) -> Policy:
        """Return both together; if both have a rule in a slot, the other's."""
        theirs = policy(other)
        set_there = ((f.name, getattr(theirs, f.name)) for f in fields(Policy))
        return replace(self, **{slot: rule for slot, rule in set_there if rule is not None})

    def __ror__(self, other: PolicyLike) -> Policy:
        return policy(other) | self

    @property
    def history(self) -> History:
        """The part of the conversation that is sent."""
        return self.chosen or EVERYTHING

    @property
    def json(self) -> dict[str, Any]:
        """The policy as in a card and in a receipt: defaults left out."""
        shown: dict[str, Any] = {}
        if chosen := self.chosen:
            shown["history"] = {"kind": chosen.kind, **non_default_fields(chosen)}
        for slot in RULES:
            if (rule := getattr(self, slot)) is not None:
                shown[slot] = non_default_fields(rule)
        return shown

    @property
    def counter(self) -> str:
        """The name of the counter of tokens."""
        return self.budget.counter if self.budget else DEFAULT_COUNTER


PolicyLike: TypeAlias = (
    "Policy | PolicyRule | Mapping[str, Any] | Iterable[Policy | PolicyRule | Mapping[str, Any]] | None"
)


def policy(*given: PolicyLike) -> Policy:
    """Return the policy of a rule, its JSON, or several: the later counts. Raises `InvalidPolicyError`."""
    return _policy(given[0] if len(given) == 1 else given)


def _policy(given: Any) -> Policy:
    match given:
        case None:
            return Policy()
        case Policy():
            return given
        case History():
            return Policy(given)
        case PolicyRule():
            return Policy(**{given.slot: given})  # type: ignore[arg-type]
        case Mapping():
            return _load(given)
        case str() | bytes():
            raise InvalidPolicyError(f"expected a policy, found the text {given!r}")
        case Iterable():
            return reduce(lambda whole, each: whole | each, given, Policy())
        case _:
            what = f"the class {given.__name__}" if isinstance(given, type) else repr(given)
            raise InvalidPolicyError(f"expected a policy, found {what}")


def _load(given: Mapping[str, Any]) -> Policy:
    loaded: dict[str, Any] = {}
    for slot, body in given.items():
        if not isinstance(body, Mapping):
            raise InvalidPolicyError(f"/{slot}: expected an object, found {type(body).__name__}")
        if slot == History.slot:
            loaded["chosen"] = _history(body)
        elif slot in RULES:
            loaded[slot] = _build(RULES[slot], slot, body)
        else:
            known = ", ".join(["history", *RULES])
            raise InvalidPolicyError(f"/{slot}: no such rule; expected one of {known}")
    return Policy(**loaded)


def _history(body: Mapping[str, Any]) -> History:
    kind = body.get("kind")
    if not isinstance(kind, str) or kind not in HISTORIES:
        raise InvalidPolicyError(f"/history/kind: {HISTORIES.missing(kind)}")
    return _build(HISTORIES[kind], "history", {key: v for key, v in body.items() if key != "kind"})


def _build(cls: type[T], slot: str, body: Mapping[str, Any]) -> T:
    try:
        return cls(**body)
    except InvalidPolicyError as error:
        raise InvalidPolicyError(f"/{slot}: {error}") from None
