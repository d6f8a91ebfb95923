"""Check of the decisions about calls in a log: by whom, and whether their signatures are right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from typing import Literal, NamedTuple, TypeAlias

from stenolog.adapters.conversation.log import Conversation, Log
from stenolog.domain.approval import DecidedCall, signed_text
from stenolog.domain.events import AssistantMessage, UserMessage
from stenolog.domain.history import Change
from stenolog.domain.values import Control

Outcome: TypeAlias = Literal["signed", "unsigned", "wrong", "another key", "not provable", "policy"]
IsSigned: TypeAlias = Callable[[bytes, bytes, bytes], bool]
"""Returns whether a public key signed a text: key, signature, text."""


class Decision(NamedTuple):
    """An approval or refusal of a call, or an answer to its question.

    `outcome`: "another key" if the signature is right, and not by one of the given keys; "wrong" if it is of
    another decision; "not provable" if the call was erased; "policy" if no person decided.
    """

    conversation: str
    position: int
    action: str
    tool: str
    identity: str
    key: str
    outcome: Outcome


def check_decisions(
    subject: Log | Conversation, keys: Collection[str], is_signed: IsSigned
) -> list[Decision]:
    """Return all decisions of a log or a conversation, each checked; `keys` are hexadecimal, empty: any."""
    log = subject if isinstance(subject, Log) else subject.log
    names = log.names(archived=True) if isinstance(subject, Log) else [subject.name]
    known = _names(log)
    return [
        decision
        for name in names
        for decision in _decisions(log[name], known, frozenset(keys), is_signed, isinstance(subject, Log))
    ]


def _names(log: Log) -> dict[int, set[str]]:
    """Return all names that the conversations have had, by stream: a signature has that of its time."""
    found: dict[int, set[str]] = defaultdict(set)
    with log.recorder.inspect() as inspection:
        for change in inspection.history():
            if isinstance(change, Change) and change.what in ("begun", "forked", "renamed"):
                found[change.stream].add(change.name)
    return found


def _decisions(
    conversation: Conversation,
    names: dict[int, set[str]],
    keys: frozenset[str],
    is_signed: IsSigned,
    own: bool,
) -> Iterator[Decision]:
    segments = conversation.log.recorder.lineage(conversation.stream)
    for entry in conversation.entries(segments[-1].after if own and segments else 0):
        said = entry.event
        control = said.control if isinstance(said, UserMessage) else None
        if control is None or control.call is None or not isinstance(said, UserMessage):
            continue
        if control.action == "ask":
            continue
        made = conversation.entry_by_id(control.call.entry)
        calls = made.event.tool_calls if made and isinstance(made.event, AssistantMessage) else ()
        call = calls[control.call.index] if control.call.index < len(calls) else None
        stream = next(one.key for one in segments if one.after < entry.position <= one.upto)
        question = _question_of(conversation, said)
        meant = (
            [DecidedCall(name, call.name, call.arguments, question) for name in names[stream]] if call else []
        )
        outcome = _outcome(control, meant, keys, is_signed)
        if outcome == "unsigned" and said.author_kind == "system":
            outcome = "policy"
        key = control.signature.key if control.signature else ""
        tool = call.name if call else ""
        yield Decision(
            conversation.name, entry.position, control.action, tool, control.identity, key, outcome
        )


def _question_of(conversation: Conversation, said: UserMessage) -> str:
    """Return the words of the question that a message answers; empty if it answers none."""
    if said.cause is None or said.control is None or said.control.action != "answer":
        return ""
    asked = next(iter(conversation.entries(said.cause - 1, said.cause)), None)
    control = asked.event.control if asked and isinstance(asked.event, UserMessage) else None
    return control.question.text if control and control.question else ""


def _outcome(
    control: Control, meant: list[DecidedCall], keys: frozenset[str], is_signed: IsSigned
) -> Outcome:
    if control.signature is None:
        return "unsigned"
    if not meant:
        return "not provable"
    try:
        key, value = bytes.fromhex(control.signature.key), bytes.fromhex(control.signature.value)
    except ValueError:
        return "wrong"
    texts = (signed_text(control, call, control.signature.at) for call in meant)
    if not any(is_signed(key, value, text) for text in texts):
        return "wrong"
    return "signed" if not keys or key.hex() in keys else "another key"
