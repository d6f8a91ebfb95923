"""The API of Gemini's generateContent, in its REST API's words, with the signatures of answers.

The model's name is in the URL: `model` beside the body is taken out when sent. Results are in a content of
their own, and the user's other words in the next one.

A signature belongs to its part. In the log that is a `ReasoningPart` with the signature, directly before that
text or call; an answer's last, with nothing after it, signs the empty text that ends a stream. It goes back
to its model family; the thought's text does not.

From Gemini 3 on, the first call of each step must be signed. One that Gemini did not sign, from another
provider or an import, has the value that its documentation names for this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import groupby
from typing import Any

from stenolog.domain.parts import (
    FilePart,
    ImagePart,
    ProviderPart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCall,
)
from stenolog.domain.values import Tool
from stenolog.projections.formats import body_builder
from stenolog.projections.formats.model_families import goes_back, since_gemini_3
from stenolog.projections.formats.parameters import parameters
from stenolog.projections.formats.writer import Writer
from stenolog.projections.messages.identifiers import (
    LONGEST_TOOL_NAME,
    CallIds,
    arguments_object,
    called,
    tool_name,
)
from stenolog.projections.messages.message import Body, Message, Preamble
from stenolog.projections.messages.quoting import placeholder, quote
from stenolog.projections.views.tool_pairs import CallKey

NAME = "gemini"
VERSION = 1
PARAMETERS = frozenset({"generationConfig", "safetySettings", "labels"})
# A request with inline data is at most 20 MB (its page on file input).
INLINE_LIMIT = 20 * 1024 * 1024
"""Characters of base64 that a picture or a file may have."""
PICTURES = frozenset({"image/jpeg", "image/png", "image/webp", "image/heic", "image/heif"})
FILES = frozenset({"application/pdf", "text/plain", "audio/wav", "audio/mp3", "audio/ogg", "video/mp4"})
IN_RESULTS = frozenset({"image/jpeg", "image/png", "image/webp", "application/pdf"})
"""Media types that a tool result may hold from Gemini 3 on, only as bytes."""
NO_OUTPUT = "[no output]"
MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY", "tool": "ANY"}


class GeminiWriter(Writer):
    """Writes the body of `POST /v1beta/models/{model}:generateContent`, and the model."""

    def begin(self) -> None:
        super().begin()
        self.ids = Calls(self.ids)
        self.tools = body_builder.tool_shapes(self.preamble, _tool_shape, GOOGLE)

    def write(self, messages: Sequence[Message]) -> None:
        for is_assistant, run in groupby(messages, key=lambda message: message.role == "assistant"):
            if is_assistant:
                _model_turn(self.builder, run, self.preamble, self.ids)
            else:
                _user_turn(self.builder, list(run), self.preamble, self.ids)

    def close(self, messages: Sequence[Message]) -> Body:
        builder, preamble = self.builder, self.preamble
        self.write(messages)
        body_builder.explain_tools(builder, preamble, self.tools, GOOGLE)
        body: Body = {"model": preamble.model}
        if preamble.persona:
            body["systemInstruction"] = {"parts": [{"text": preamble.persona}]}
        if self.tools:
            functions = [tool for tool in self.tools if "type" not in tool]
            own = [_without_type(tool) for tool in self.tools if "type" in tool]
            body["tools"] = [*([{"functionDeclarations": functions}] if functions else []), *own]
        body |= parameters(builder, preamble, PARAMETERS, lambda name, value: _say(name, value, preamble))
        body["contents"] = builder.messages.copy()
        return body


def takes_schema(model: str, has_tools: bool) -> bool:
    """Return whether a model is held to the schema of its answer; the older ones refuse one beside tools."""
    return since_gemini_3(model) or not has_tools


def _say(name: str, value: Any, preamble: Preamble) -> Body | None:
    match name:
        case "max_tokens":
            return {"generationConfig": {"maxOutputTokens": value}}
        case "temperature":
            return {"generationConfig": {"temperature": value}}
        case "top_p":
            return {"generationConfig": {"topP": value}}
        case "stop":
            return {"generationConfig": {"stopSequences": value}}
        case "output" if takes_schema(preamble.model, bool(preamble.tools)):
            answer = {"responseMimeType": "application/json", "responseJsonSchema": value.schema}
            return {"generationConfig": answer}
        case "effort" if since_gemini_3(preamble.model):
            return {"generationConfig": {"thinkingConfig": {"thinkingLevel": value.upper()}}}
        case "tool_choice":
            named = {"allowedFunctionNames": [function_name(value.tool)]} if value.tool else {}
            return {"toolConfig": {"functionCallingConfig": {"mode": MODES[value.mode], **named}}}
        case _:
            return None


def _content(builder: body_builder.BodyBuilder, role: str, *, of_results: bool = False) -> list[Body]:
    """Return the current content's parts: a new one's if the role changes, or results end or begin."""
    if not builder.messages and role == "model":
        # The API wants the user to begin.
        _content(builder, "user").append({"text": body_builder.OPENING})
        builder.explain(
            Message("user", (TextPart(text=body_builder.OPENING),), (), "opening-note", "added"),
            body_builder.OPENING,
        )
    last = builder.messages[-1] if builder.messages else None
    if last is None or last["role"] != role or ("functionResponse" in last["parts"][0]) != of_results:
        builder.messages.append({"role": role, "parts": []})
    return builder.last("parts")


def _model_turn(
    builder: body_builder.BodyBuilder, run: Iterator[Message], preamble: Preamble, calls: Calls
) -> None:
    for message in run:
        made = list(answer_parts(builder, message, preamble, calls))
        if made:
            _content(builder, "model").extend(part for part, _ in made)
            rule = next((mended for _, mended in made if mended), "")
            builder.explain(message, [_without_placeholder(part) for part, _ in made], rule=rule)


def _user_turn(
    builder: body_builder.BodyBuilder, run: list[Message], preamble: Preamble, calls: Calls
) -> None:
    after: list[Message] = []
    for message in run:
        if message.role == "tool" and since_gemini_3(preamble.model):
            _result(builder, message, calls)
        elif message.role == "tool":
            shown = tuple(body_builder.media(message))
            below = tuple(TextPart(text=placeholder(part, "shown below")) for part in shown)
            said = tuple(part for part in message.parts if part not in shown)
            _result(builder, message._replace(parts=said + below), calls)
            moved = message._replace(role="user", parts=shown, rule="media-after-results")
            after += [moved] if shown else []
    for message in (*after, *(message for message in run if message.role != "tool")):
        _write_answer(builder, message)


def _result(builder: body_builder.BodyBuilder, message: Message, calls: Calls) -> None:
    assert message.call is not None
    shown, rule = body_builder.content_blocks(
        message,
        lambda part: _medium(builder, part, in_result=True),
        lambda part: builder.fits(part, INLINE_LIMIT),
    )
    text = "\n".join(block["text"] for block in shown if "text" in block)
    if message.failed and not text.strip():
        text, rule = NO_OUTPUT, "empty-error"
    answer: Body = {**calls.of(message.call), "response": {"error" if message.failed else "output": text}}
    held = [block for block in shown if "text" not in block]
    if held:
        answer["parts"] = held
    _content(builder, "user", of_results=True).append({"functionResponse": answer})
    builder.explain(message, {**answer, "name": ""}, rule=rule)


def _write_answer(builder: body_builder.BodyBuilder, message: Message) -> None:
    if message.role == "system":
        said = body_builder.texts(message) + [
            placeholder(part, "not shown") for part in body_builder.media(message)
        ]
        shown, rule = [{"text": quote("note", "\n".join(said))}], ""
    else:
        shown, rule = body_builder.content_blocks(
            message, lambda part: _medium(builder, part), lambda part: builder.fits(part, INLINE_LIMIT)
        )
    parts = [{key: value for key, value in block.items() if key != "type"} for block in shown]
    if parts:
        _content(builder, "user").extend(parts)
        builder.explain(message, parts, rule=rule)


def _medium(
    builder: body_builder.BodyBuilder, part: ImagePart | FilePart, *, in_result: bool = False
) -> Body:
    """Return a picture or a file as the API takes it; others, and missing blobs, as a line of text."""
    data = builder.data(part)
    fits = part.media_type in (IN_RESULTS if in_result else PICTURES | FILES)
    if fits and data is not None:
        return {"inlineData": {"mimeType": part.media_type, "data": data}}
    if fits and not in_result and part.url.startswith(("https://", "gs://")):
        return {"fileData": {"mimeType": part.media_type, "fileUri": part.url}}
    return {"type": "text", "text": placeholder(part, "is not available" if fits else "is not shown")}


def _tool_shape(tool: Tool) -> Body:
    shape: Body = {"name": function_name(tool.name)}
    if tool.description:
        shape["description"] = tool.description
    return shape | {"parametersJsonSchema": body_builder.schema(tool.parameters)}


def _without_type(tool: Body) -> Body:
    return {key: value for key, value in tool.items() if key != "type"}


def _without_placeholder(part: Body) -> Body:
    return {key: value for key, value in part.items() if value != UNSIGNED}


GOOGLE = frozenset({"google", "gemini"})
"""The providers whose reasoning and opaque parts are Gemini's."""
UNSIGNED = "skip_thought_signature_validator"
"""Signature of a call that Gemini did not make (from its page on thought signatures, FAQ)."""
ANSWERED_BY = {"executableCode": "codeExecutionResult", "toolCall": "toolResponse"}
"""Uses of Gemini's own tools and their results: one is never sent back without the other."""
RAW = frozenset({*ANSWERED_BY, *ANSWERED_BY.values(), "inlineData", "fileData"})


class Calls:
    """The calls made so far in a request, with ids and names."""

    def __init__(self, ids: CallIds) -> None:
        self._ids = ids
        self._names: dict[CallKey, str] = {}

    def give(self, key: CallKey, call: ToolCall) -> tuple[Body, str]:
        """Return a call's shape, and the rule that mended it, if any."""
        id, new_id = self._ids.give(key, call)
        name = self._names[key] = function_name(called(call))
        given, wrapped = arguments_object(call.arguments)
        rule = "raw-arguments" if wrapped else "tool-name" if name != called(call) else "call-id" * new_id
        return {"functionCall": {"id": id, "name": name, "args": given}}, rule

    def of(self, key: CallKey) -> Body:
        """Return the id and name that a result answers."""
        return {"id": self._ids.of(key), "name": self._names[key]}

    @property
    def count(self) -> int:
        return self._ids.count

    def back(self, count: int) -> None:
        """Take back later ones; their names do no harm."""
        self._ids.back(count)


def answer_parts(
    builder: body_builder.BodyBuilder, message: Message, preamble: Preamble, calls: Calls
) -> Iterator[tuple[Body, str]]:
    """Yield an answer's parts, each with its original signature and the rule that repaired it."""
    keys = iter(message.calls)
    raw = _raw_parts(message, preamble)
    held: ReasoningPart | None = None
    silent, must_sign = True, since_gemini_3(preamble.model)
    for i, part in enumerate(message.parts):
        made, rule = None, ""
        match part:
            case TextPart(text=text) | RefusalPart(text=text):
                made = {"text": text}
            case ToolCall():
                made, rule = calls.give(next(keys), part)
                if must_sign and held is None:
                    # In every turn, though only the current one is checked: so what was sent once is sent
                    # again unchanged.
                    made["thoughtSignature"], rule = UNSIGNED, rule or "unsigned-call"
                must_sign = False
            case ReasoningPart(signature=signed) if signed and goes_back(part, message, preamble, GOOGLE):
                _let_go(builder, message, held)
                held = part
            case ProviderPart() if i in raw:
                made = raw[i]
            case ReasoningPart():
                builder.omit(message, part, "foreign-reasoning")
            case ProviderPart():
                builder.omit(message, part)
            case _:
                pass
        if made is not None:
            yield _signed(builder, message, made, held), rule
            held, silent = None, False
    if held is not None and not silent:
        yield _signed(builder, message, {"text": ""}, held), ""
    else:
        _let_go(builder, message, held)


def _signed(
    builder: body_builder.BodyBuilder, message: Message, part: Body, thought: ReasoningPart | None
) -> Body:
    if thought is None:
        return part
    if thought.text:
        # Nothing asks for the text of a thought, and some models go on thinking aloud when they read it.
        builder.omit(message, TextPart(text=thought.text), "reasoning-not-carried")
    return part | {"thoughtSignature": thought.signature}


def _let_go(builder: body_builder.BodyBuilder, message: Message, thought: ReasoningPart | None) -> None:
    if thought is not None:
        builder.omit(message, thought, "trailing-thinking")


def _raw_parts(message: Message, preamble: Preamble) -> dict[int, Body]:
    """Return an answer's opaque parts to send back, by index; a call only with its answer."""
    found: dict[int, tuple[str, Body]] = {}
    for i, part in enumerate(message.parts):
        if isinstance(part, ProviderPart) and goes_back(part, message, preamble, GOOGLE):
            raw, broken = arguments_object(part.raw)
            kinds = RAW & raw.keys()
            if len(kinds) == 1 and not broken and raw.keys() <= {*kinds, "thoughtSignature"}:
                found[i] = (min(kinds), raw)
    for call, answer in ANSWERED_BY.items():
        waiting = [kind == call for kind, _ in found.values() if kind in (call, answer)]
        balance = [waiting[:n].count(True) - waiting[:n].count(False) for n in range(len(waiting) + 1)]
        # A call without its answer, or an answer before its call: none of them is sent.
        if min(balance) < 0 or balance[-1]:
            found = {i: raw for i, raw in found.items() if raw[0] not in (call, answer)}
    return {i: raw for i, (_, raw) in found.items()}


def function_name(raw: str) -> str:
    """Return the name as every provider takes it; Gemini's first character is a letter or _."""
    name = tool_name(raw)
    if name[0].isalpha() or name[0] == "_":
        return name
    # With a hash, so that the name with an underscore is not that of another tool.
    suffix = "_" + sha256(name.encode()).hexdigest()[:6]
    return "_" + name[: LONGEST_TOOL_NAME - len(suffix) - 1] + suffix
