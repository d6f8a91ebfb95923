"""Transforms of an application's own: functions that change a message before a lane is shown it.

    @register_transform("no-numbers@1", "numbers are blotted out")
    def no_numbers(piece, entry):
        return piece._replace(parts=…)

A policy names them (`Transforms(("no-numbers@1",))`), so a receipt says by which a request was built, and the
explanation names the rule. They must be pure: the same piece and entry, the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from stenolog.domain.entry import Entry
from stenolog.domain.errors import InvalidPolicyError
from stenolog.domain.policy import Transforms
from stenolog.domain.registry import Registry
from stenolog.projections.requests.request import Message
from stenolog.projections.requests.tokens import Counter, count_parts

Apply: TypeAlias = Callable[[Message, Entry], Message | None]
"""The piece as it is heard; the same one where nothing is done, None where it is not heard at all."""


class Transform(NamedTuple):
    """A rule by name and version, and what it does in a sentence."""

    name: str
    does: str
    apply: Apply


TRANSFORMS: Registry[Transform] = Registry("a transform")
"""Every transform that a policy may name."""


def register_transform(name: str, does: str) -> Callable[[Apply], Apply]:
    """Register a transform under a name with its version, once, where the program begins.

    Raises `CallerError` where another transform has the name.
    """

    def register(apply: Apply) -> Apply:
        TRANSFORMS.add(name, Transform(name, does, apply))
        return apply

    return register


def chosen(rule: Transforms | None) -> tuple[Transform, ...]:
    """The rules that a policy names. Raises `InvalidPolicyError` for one that is not known here."""
    names = rule.names if rule else ()
    for name in names:
        if name not in TRANSFORMS:
            raise InvalidPolicyError(f"/rewrites/names: {TRANSFORMS.missing(name)}")
    return tuple(TRANSFORMS[name] for name in names)


def rewritten(
    pieces: Iterable[Message], entry: Entry, rules: Iterable[Transform], counter: Counter
) -> tuple[Message, ...]:
    """The pieces after every rule; what a rule changed is explained by its name."""
    heard = tuple(pieces)
    for rule in rules:
        made = [_applied(rule, piece, entry, counter) for piece in heard]
        heard = tuple([piece for piece in made if piece is not None])
    return heard


def _applied(rule: Transform, piece: Message, entry: Entry, counter: Counter) -> Message | None:
    made = rule.apply(piece, entry)
    if made is None or made == piece:
        return made
    tokens = count_parts(piece.parts, counter) if piece.tokens_in < 0 else piece.tokens_in
    return made._replace(rule=rule.name, disposition="reworded", tokens_in=tokens)
