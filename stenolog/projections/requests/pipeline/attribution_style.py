"""Style of attribution: how a policy shows others' words to a lane, made harmless."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from stenolog.domain.errors import InvalidPolicyError
from stenolog.domain.parts import FilePart, ImagePart, Part, RefusalPart, TextPart, ToolCall
from stenolog.domain.policy import Policy
from stenolog.projections.messages.message import PIPELINE, PIPELINES, Message
from stenolog.projections.messages.quoting import END_OF, guard, harmless, without_remarks
from stenolog.projections.messages.sizes import ESTIMATE, Counter, count_parts

from .lane import LaneId, SharedLane


class AttributionStyle(NamedTuple):
    """A lane's settings for authors' messages: headings, role of other agents, token counter.

    `openings` are the beginnings of the engine's own lines; no quoted text may begin a line with one.
    `version` is the pipeline's: until 5, look-alikes and remarks of ours passed.
    """

    lane: LaneId
    others: str = ""
    counter: Counter = ESTIMATE
    openings: tuple[str, ...] = ()
    user: str = ""
    role: Literal["user", "system", "assistant"] = "user"
    version: int = PIPELINES[PIPELINE]

    def guarded(self, text: str) -> str:
        """Return an author's words without lines that look like ours."""
        return guard(text, self.openings) if self.openings else text

    def harmless(self, text: str) -> str:
        """Return another's words without delimiters and remarks that look like ours."""
        return harmless(text) if self.version > 5 else text

    def harmless_parts(self, parts: Sequence[Part]) -> tuple[Part, ...]:
        """Return another's parts: texts, calls and names of files are harmless."""
        return tuple([_each(part, harmless) for part in parts]) if self.version > 5 else tuple(parts)

    def unimitated(self, result: Message) -> Message:
        """Return the result of an own call without lines that look like remarks of ours."""
        said = "\n".join([part.text for part in result.parts if isinstance(part, TextPart)])
        if self.version < 6 or without_remarks(said) == said:
            return result
        parts = tuple([_each(part, without_remarks) for part in result.parts])
        tokens = count_parts(result.parts, self.counter) if result.tokens_in < 0 else result.tokens_in
        return result._replace(parts=parts, disposition="reworded", tokens_in=tokens)


def _each(part: Part, harmless: Callable[[str], str]) -> Part:
    now: dict[str, Any]
    match part:
        case TextPart(text=text) | RefusalPart(text=text):
            now = {"text": harmless(text)}
        case ToolCall(name=name, arguments=arguments):
            now = {"name": harmless(name), "arguments": harmless(arguments)}
        case ImagePart(media_type=kind):
            now = {"media_type": harmless(kind)}
        case FilePart(name=name, media_type=kind):
            now = {"name": harmless(name), "media_type": harmless(kind)}
        case _:
            return part
    return part if all(getattr(part, key) == text for key, text in now.items()) else replace(part, **now)


def attribution_style(lane: LaneId, policy: Policy, counter: Counter) -> AttributionStyle:
    """Return the style of a lane's window under a policy.

    Raises `InvalidPolicyError` for a heading that can be forged.
    """
    voices = policy.voices
    others, user, role = (voices.others, voices.user, voices.role) if voices else ("", "", "user")
    # Without words or a sign before the name, any line could pass for a heading.
    if others and not (others.count("{name}") == 1 and others.partition("{name}")[0].strip()):
        raise InvalidPolicyError(f"/voices/others: expected words or a sign, then {{name}}, found {others!r}")
    if user and (not user.strip() or len(user.splitlines()) > 1):
        raise InvalidPolicyError(f"/voices/user: expected a heading on one line, found {user!r}")
    if role == "system" and not others:
        raise InvalidPolicyError("/voices/others: expected a heading, such as '💬 {name}', for role 'system'")
    opening = tuple(heading for heading in (others.partition("{name}")[0], user) if heading)
    if role == "assistant" and (others or policy.away):
        raise InvalidPolicyError(
            "/voices/role: expected no `others` and no MissedMessages for role 'assistant'"
        )
    lane = SharedLane(*lane) if role == "assistant" else lane
    notes = (f"[{policy.away.title}", f"[{END_OF} {policy.away.title}") if policy.away else ()
    version = PIPELINES[policy.pipeline or PIPELINE]
    return AttributionStyle(lane, others, counter, opening + notes, user, role, version)
