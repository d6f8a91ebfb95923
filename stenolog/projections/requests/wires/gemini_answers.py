"""Answers of an agent in Gemini's format: signed, where Gemini signed them.

A signature belongs to the part that it was given with. In the log that is a `ReasoningPart` with the
signature, directly before that text or call; the last of an answer, with nothing behind it, signs the empty
text that a stream ends with. It goes back to the family of models that made it; the text of the thought does
not, for nothing asks for it, and some models go on thinking aloud when they read it.

From Gemini 3 on, the first call of each step must be signed. One that Gemini did not sign, from before a
switch of provider or an import, has the value that its documentation names for this. It has it in every
turn, though only the current one is checked, so that what was sent once is sent again unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256

from stenolog.domain.parts import ProviderPart, ReasoningPart, RefusalPart, TextPart, ToolCall
from stenolog.projections.requests.pipeline.identifiers import (
    LONGEST_TOOL_NAME,
    CallIds,
    arguments_object,
    called,
    tool_name,
)
from stenolog.projections.requests.pipeline.prefix import Prefix
from stenolog.projections.requests.request import Body, Message
from stenolog.projections.tool_pairs import CallKey

from .body_builder import BodyBuilder
from .model_families import goes_back, since_gemini_3

GOOGLE = frozenset({"google", "gemini"})
"""The providers whose reasoning and opaque parts are Gemini's."""
UNSIGNED = "skip_thought_signature_validator"
"""Signature of a call that Gemini did not make (from its page on thought signatures, FAQ)."""
ANSWERED_BY = {"executableCode": "codeExecutionResult", "toolCall": "toolResponse"}
"""Uses of Gemini's own tools and their results: one is never sent back without the other."""
RAW = frozenset({*ANSWERED_BY, *ANSWERED_BY.values(), "inlineData", "fileData"})


class Calls:
    """The calls made so far in one request, each with its id and name."""

    def __init__(self) -> None:
        self._ids = CallIds()
        self._names: dict[CallKey, str] = {}

    def give(self, key: CallKey, call: ToolCall) -> tuple[Body, str]:
        """The shape of a call, and the rule that mended it (empty: none had to)."""
        id, new_id = self._ids.give(key, call)
        name = self._names[key] = function_name(called(call))
        given, wrapped = arguments_object(call.arguments)
        rule = "raw-arguments" if wrapped else "tool-name" if name != called(call) else "call-id" * new_id
        return {"functionCall": {"id": id, "name": name, "args": given}}, rule

    def of(self, key: CallKey) -> Body:
        """The id and the name that a result answers to."""
        return {"id": self._ids.of(key), "name": self._names[key]}

    @property
    def ids(self) -> list[str]:
        """The ids that are taken."""
        return self._ids.ids

    def resume(self, taken: Iterable[str]) -> None:
        """Go on where these were taken."""
        self._ids.resume(taken)

    @property
    def count(self) -> int:
        """The number of calls made so far."""
        return self._ids.count

    def back(self, mark: int) -> None:
        """Take back those that were made since; their names do no harm."""
        self._ids.back(mark)


def answer_parts(
    sheet: BodyBuilder, piece: Message, prefix: Prefix, calls: Calls
) -> Iterator[tuple[Body, str]]:
    """Yield the parts of an answer, each with its original signature and the rule that repaired it."""
    keys = iter(piece.calls)
    raw = _raw_parts(piece, prefix)
    held: ReasoningPart | None = None
    silent, must_sign = True, since_gemini_3(prefix.model)
    for i, part in enumerate(piece.parts):
        made, rule = None, ""
        match part:
            case TextPart(text=text) | RefusalPart(text=text):
                made = {"text": text}
            case ToolCall():
                made, rule = calls.give(next(keys), part)
                if must_sign and held is None:
                    made["thoughtSignature"], rule = UNSIGNED, rule or "unsigned-call"
                must_sign = False
            case ReasoningPart(signature=signed) if signed and goes_back(part, piece, prefix, GOOGLE):
                _let_go(sheet, piece, held)
                held = part
            case ProviderPart() if i in raw:
                made = raw[i]
            case ReasoningPart():
                sheet.omit(piece, part, "foreign-reasoning")
            case ProviderPart():
                sheet.omit(piece, part)
            case _:
                pass
        if made is not None:
            yield _signed(sheet, piece, made, held), rule
            held, silent = None, False
    if held is not None and not silent:
        yield _signed(sheet, piece, {"text": ""}, held), ""
    else:
        _let_go(sheet, piece, held)


def _signed(sheet: BodyBuilder, piece: Message, part: Body, thought: ReasoningPart | None) -> Body:
    """The part with the signature of a thought, whose text is left behind."""
    if thought is None:
        return part
    if thought.text:
        sheet.omit(piece, TextPart(text=thought.text), "reasoning-not-carried")
    return part | {"thoughtSignature": thought.signature}


def _let_go(sheet: BodyBuilder, piece: Message, thought: ReasoningPart | None) -> None:
    if thought is not None:
        sheet.omit(piece, thought, "trailing-thinking")


def _raw_parts(piece: Message, prefix: Prefix) -> dict[int, Body]:
    """The opaque parts of an answer that go back, by their index; a call and its answer only together."""
    found: dict[int, tuple[str, Body]] = {}
    for i, part in enumerate(piece.parts):
        if isinstance(part, ProviderPart) and goes_back(part, piece, prefix, GOOGLE):
            raw, broken = arguments_object(part.raw)
            kinds = RAW & raw.keys()
            if len(kinds) == 1 and not broken and raw.keys() <= {*kinds, "thoughtSignature"}:
                found[i] = (min(kinds), raw)
    for call, answer in ANSWERED_BY.items():
        waiting = [kind == call for kind, _ in found.values() if kind in (call, answer)]
        balance = [waiting[:n].count(True) - waiting[:n].count(False) for n in range(len(waiting) + 1)]
        if min(balance) < 0 or balance[-1]:
            found = {i: raw for i, raw in found.items() if raw[0] not in (call, answer)}
    return {i: raw for i, (_, raw) in found.items()}


def function_name(raw: str) -> str:
    """The name as every provider takes it, and with a letter or an underscore first, as Gemini does."""
    name = tool_name(raw)
    if name[0].isalpha() or name[0] == "_":
        return name
    mark = "_" + sha256(name.encode()).hexdigest()[:6]
    return "_" + name[: LONGEST_TOOL_NAME - len(mark) - 1] + mark
