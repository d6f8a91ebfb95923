"""Stage 4, attributed: own words are the assistant's, the user's the user's, and all others are quoted.

Others' tool calls are prose. Transforms are an application's own rules for attribution.

    @register_transform("no-numbers@1", "numbers are blotted out")
    def no_numbers(message, entry):
        return message._replace(parts=…)

A policy names them (`Transforms(("no-numbers@1",))`), so receipts and explanations name the rule. They must
be pure: the same message and entry, the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from stenolog.domain.base.registry import Registry
from stenolog.domain.entry import Entry
from stenolog.domain.errors import InvalidPolicyError
from stenolog.domain.events import AssistantMessage, LlmError, ToolResult, UserMessage
from stenolog.domain.lanes.state import address
from stenolog.domain.lanes.triggers import response_of
from stenolog.domain.parts import (
    FilePart,
    ImagePart,
    Part,
    ProviderPart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCall,
)
from stenolog.domain.policy import Transforms
from stenolog.domain.verdict import is_refused
from stenolog.projections.messages import quoting
from stenolog.projections.messages.message import Message
from stenolog.projections.messages.sizes import Counter, count_parts
from stenolog.projections.views.acts import act_in_words, is_act
from stenolog.projections.views.lines import was_retried
from stenolog.projections.views.tool_pairs import CallKey, Pair

from .attribution_style import AttributionStyle
from .lane import INTERRUPTIONS

WORDS = (TextPart, RefusalPart)
UNSAID = (ReasoningPart, ProviderPart)
"""Text shown for a summary that has no text."""


def attribute(
    entry: Entry, style: AttributionStyle, pair: Pair | None, shorter: tuple[Part, ...] | None = None
) -> tuple[Message, ...]:
    """Return the messages that an entry becomes for the lane.

    `pair` has the call of a result, `shorter` the parts of a truncated result.
    """
    match entry.event:
        case UserMessage() as message:
            return (_user(entry.position, message, style),)
        case AssistantMessage() as message:
            return (_quoted(entry.position, message, style),)
        case ToolResult() as result:
            return (_result(entry, result, style, pair or Pair(entry.position, None), shorter),)
        case LlmError() as error:
            return tuple(_error(entry.position, error, style))
        case _:
            return ()


def _quoted(position: int, message: AssistantMessage, style: AttributionStyle) -> Message:
    # Before all other purposes: whatever covers messages stands in their place.
    if message.covers or message.purpose == "summary":
        return _summary(position, message, style)
    if message.purpose != "answer":
        return _kept_fact(position, message, message.purpose, style)
    if not style.lane.owns(message):
        return _others(position, message, style)
    return _own_message(position, message, "own" if style.lane.wrote(message) else "shared")


def _user(position: int, message: UserMessage, style: AttributionStyle) -> Message:
    parts, unsaid = drop_blank(representable(message.parts)), unrepresentable(message.parts)
    if parts and unsaid:
        # An API that has a place for a part of its provider's takes it; the others say that they do not.
        parts, unsaid = drop_blank(message.parts), ()
    if message.author_kind == "system":
        return Message("system", parts, (position,), "system-note", unsaid=unsaid)
    is_mine = (
        style.lane.shared
        or not message.to
        or style.lane.address in message.to
        or style.lane.agent in message.to
    )
    is_users = message.author_kind == "person" and not message.author
    if is_users and is_mine:
        own = Message("user", parts, (position,), "user", unsaid=unsaid)
        return _headed(own, style.user, style) if style.user else own
    speaker = message.author or ("user" if message.author_kind == "person" else message.author_kind)
    # Said to others, with their names: the lane must not take it for a message to itself.
    speaker = style.harmless(speaker if is_mine else f"{speaker} to {', '.join(message.to)}")
    by: Literal["user", "agent"] = "agent" if message.author_kind == "agent" else "user"
    shown = Message(
        "user",
        style.harmless_parts(parts),
        (position,),
        "attributed",
        "reworded",
        speaker=speaker,
        by=by,
        unsaid=unsaid,
    )
    if is_users and style.user:
        return _headed(
            shown, f"{style.user} to {quoting.escape(style.harmless(', '.join(message.to)))}", style
        )
    return _attributed(shown, style)


def _headed(message: Message, heading: str, style: AttributionStyle) -> Message:
    """Return the message with its texts as one, under a heading; unchanged without a text."""
    texts = [style.guarded(part.text) for part in message.parts if isinstance(part, TextPart)]
    if not texts:
        return message
    media = (part for part in message.parts if not isinstance(part, TextPart))
    tokens, headed = (
        count_parts(message.parts, style.counter),
        TextPart(text=quoting.under(heading, "\n".join(texts))),
    )
    shown = message._replace(parts=(headed, *media), speaker="", tokens_in=tokens)
    return shown._replace(rule="attributed", disposition="reworded")


def _attributed(message: Message, style: AttributionStyle) -> Message:
    """Return another author's words, under the policy's heading, or with a name for an API to quote."""
    if not style.openings:
        return message
    parts, speaker = message.parts, message.speaker
    if style.others:
        heading = style.others.replace("{name}", quoting.escape(quoting.heading_name(speaker, style.others)))
        shown = _headed(message, heading, style)
        # A system message holds text alone.
        is_text = all(isinstance(part, TextPart) for part in shown.parts)
        is_systems = style.role == "system" and shown.by == "agent" and bool(shown.parts) and is_text
        return shown._replace(role="system") if is_systems else shown
    texts = [style.guarded(part.text) for part in parts if isinstance(part, TextPart)]
    if not texts:
        return message
    tokens = count_parts(parts, style.counter)
    rest = (part for part in parts if not isinstance(part, TextPart))
    return message._replace(parts=(TextPart(text="\n".join(texts)), *rest), tokens_in=tokens)


def _summary(position: int, message: AssistantMessage, style: AttributionStyle) -> Message:
    fact = _kept_fact(position, message, "summary", style)
    # A compaction of the provider's own, which only a model of its family can read.
    native = tuple(part for part in message.parts if isinstance(part, ProviderPart))
    if not native or not style.lane.owns(message):
        return fact
    unsaid = tuple(part for part in fact.unsaid if part not in native)
    return fact._replace(
        parts=(fact.parts or (quoting.UNREADABLE,)) + native, unsaid=unsaid, model=message.model
    )


def _kept_fact(position: int, message: AssistantMessage, what: str, style: AttributionStyle) -> Message:
    """Return a summary, memory or routing: a fact for the lane, but not its turn."""
    fact = style.guarded(as_text(style.harmless_parts(message.parts)))
    text = (TextPart(text=quoting.quote(what, fact)),) if fact.strip() else ()
    tokens = count_parts(message.parts)
    unsaid = unrepresentable(message.parts)
    return Message("user", text, (position,), what, "reworded", tokens_in=tokens, unsaid=unsaid)


def _own_message(position: int, message: AssistantMessage, rule: str) -> Message:
    return Message(
        "assistant",
        drop_blank(message.parts),
        (position,),
        rule,
        calls=tuple([CallKey(position, nth) for nth in range(len(message.tool_calls))]),
        joins=response_of(message),
        model=message.model,
        stop=message.finish_reason,
    )


def _others(
    position: int, message: AssistantMessage | LlmError, style: AttributionStyle, ending: str = ""
) -> Message:
    text = "\n".join([as_text(style.harmless_parts(message.parts)), *([ending] if ending else [])])
    texts = (TextPart(text=text),) if text.strip() else ()
    speaker = style.harmless(address(message.agent, message.task))
    unsaid = unrepresentable(message.parts)
    shown = Message(
        "user", texts, (position,), "attributed", "reworded", speaker=speaker, by="agent", unsaid=unsaid
    )
    return _attributed(shown, style)


def _result(
    entry: Entry, result: ToolResult, style: AttributionStyle, pair: Pair, shorter: tuple[Part, ...] | None
) -> Message:
    call = pair.call
    own = call is not None and style.lane.owns(call)
    rule = "result" if own else "attributed" if call else "second-result" if pair.second else "orphan-result"
    message = Message(
        "tool",
        tuple(result.parts) if own else representable(result.parts),
        (entry.position,),
        rule,
        call=call.key if call is not None and own else None,
        failed=result.is_error,
        tool=call.name if call is not None and own else result.name,
        raw_id=result.call_id,
        unsaid=() if own else unrepresentable(result.parts),
    )
    if shorter is not None:
        tokens, rule = count_parts(result.parts, style.counter), "compact" if own else rule
        parts = representable(shorter)
        unsaid = unrepresentable(result.parts)
        message = message._replace(
            parts=parts, rule=rule, disposition="reworded", tokens_in=tokens, unsaid=unsaid
        )
    return style.unimitated(message) if own else in_prose_result(message, style)


def in_prose_result(message: Message, style: AttributionStyle) -> Message:
    """Return a result without its call as quoted text that names the call."""
    parts, named = style.harmless_parts(message.parts), style.harmless(message.tool)
    output = style.guarded("\n".join(part.text for part in parts if isinstance(part, TextPart)))
    call, failed = style.harmless(message.raw_id), "yes" if message.failed else ""
    text = quoting.quote("tool-result", output, call=call, tool=named, failed=failed)
    shown = (TextPart(text=text), *(part for part in parts if isinstance(part, ImagePart | FilePart)))
    return message._replace(
        role="user",
        by="tool",
        parts=shown,
        disposition="reworded",
        call=None,
        tool=named,
        tokens_in=count_parts(message.parts) if message.tokens_in < 0 else message.tokens_in,
        size=None,
    )


def _error(position: int, error: LlmError, style: AttributionStyle) -> Iterator[Message]:
    # The partial text is an anchor for "continue".
    partial = "" if was_retried(error) else as_text(error.parts, acts=style.lane.owns(error))
    stops = error.category in INTERRUPTIONS
    own = style.lane.owns(error)
    whose = "your" if own else "the"
    what = _what_happened(error, f"{whose} answer", style, cut_off=bool(partial.strip()))
    if not own:
        yield _others(position, error, style, quoting.note(what))
        return
    unsaid = () if was_retried(error) else unrepresentable(part for part in error.parts if not is_act(part))
    # Nothing is left of it but that it stopped the lane, which the seals of open calls rest on.
    if was_retried(error):
        yield Message("user", (), (position,), "retried", interrupts=stops, unsaid=unsaid)
        return
    if partial.strip():
        texts = (TextPart(text=partial),)
        yield Message("assistant", texts, (position,), "partial", interrupts=stops, unsaid=unsaid)
    rule = "interrupted-note" if stops else "error-note"
    rule = "refused-note" if is_refused(error) else f"cut-off-{rule}" if partial.strip() else rule
    text = (TextPart(text=quoting.note(what)),)
    unsaid = () if partial.strip() else unsaid
    yield Message("user", text, (position,), rule, "added", interrupts=stops, unsaid=unsaid)


def _what_happened(error: LlmError, answer: str, style: AttributionStyle, *, cut_off: bool) -> str:
    message = quoting.escape(style.harmless(" ".join(error.message.split())))
    if error.category == "cancelled":
        what = f"{answer} was interrupted by the user" if cut_off else "interrupted by the user"
        return f"{what}: {message}" if message else what
    if is_refused(error):
        return f"{answer} was not accepted: {message}"
    reason = f"{error.category}: {message}" if message else error.category
    return f"{answer} {'was cut off' if cut_off else 'failed'} ({reason})"


def drop_blank(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return the parts without blank texts."""
    # No provider takes a blank text.
    return tuple([part for part in parts if not isinstance(part, WORDS) or part.text.strip()])


def representable(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return the parts that some API can carry."""
    return tuple([part for part in parts if not isinstance(part, ProviderPart)])


def unrepresentable(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return the parts that prose cannot say."""
    return tuple([part for part in parts if isinstance(part, UNSAID)])


def as_text(parts: Iterable[Part], *, acts: bool = False) -> str:
    """Return the parts as one text, with tool calls written out; `acts`: a program's own actions too."""
    # An answer that failed has nothing else to say what was done, so that it is not done again.
    lines = []
    for part in parts:
        match part:
            case TextPart(text=text) | RefusalPart(text=text):
                lines.append(text)
            case ToolCall(name=name, arguments=arguments):
                lines.append(quoting.call_in_prose(name, arguments))
            case ProviderPart(raw=raw) if acts and is_act(part):
                lines.append(f"[did {act_in_words(raw)}]")
            case _:
                pass
    return "\n".join(lines)


Apply: TypeAlias = Callable[[Message, Entry], Message | None]
"""The message as the lane is shown it; the same one if nothing is done, None if it is left out."""


class Transform(NamedTuple):
    """A rule by name and version, and what it does in a sentence."""

    name: str
    does: str
    apply: Apply


TRANSFORMS: Registry[Transform] = Registry("a transform")
"""Every transform that a policy may name."""


def register_transform(name: str, does: str) -> Callable[[Apply], Apply]:
    """Register a transform under a name with its version, at the start of a program.

    Raises `CallerError` if another transform has the name.
    """

    def register(apply: Apply) -> Apply:
        TRANSFORMS.add(name, Transform(name, does, apply))
        return apply

    return register


def chosen(rule: Transforms | None) -> tuple[Transform, ...]:
    """Return a policy's rules. Raises `InvalidPolicyError` for an unknown one."""
    names = rule.names if rule else ()
    for name in names:
        if name not in TRANSFORMS:
            raise InvalidPolicyError(f"/rewrites/names: {TRANSFORMS.missing(name)}")
    return tuple(TRANSFORMS[name] for name in names)


def rewritten(
    messages: Iterable[Message], entry: Entry, rules: Iterable[Transform], counter: Counter
) -> tuple[Message, ...]:
    """Return the messages after every rule; a changed one's explanation has the rule's name."""
    kept = tuple(messages)
    for rule in rules:
        applied = [_applied(rule, message, entry, counter) for message in kept]
        kept = tuple([message for message in applied if message is not None])
    return kept


def _applied(rule: Transform, message: Message, entry: Entry, counter: Counter) -> Message | None:
    changed = rule.apply(message, entry)
    if changed is None or changed == message:
        return changed
    tokens = count_parts(message.parts, counter) if message.tokens_in < 0 else message.tokens_in
    return changed._replace(rule=rule.name, disposition="reworded", tokens_in=tokens)
