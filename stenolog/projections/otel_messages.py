"""Messages in the JSON of OpenTelemetry's conventions: answers, and all that a model was sent.

The body of each request is built again, as the provider got it, and read by its format's reader.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stenolog.domain import events
from stenolog.domain.entry import Entry
from stenolog.domain.errors import StenologError
from stenolog.domain.parts import FilePart, ImagePart, Part, ReasoningPart, RefusalPart, TextPart, ToolCall
from stenolog.domain.settings import settings
from stenolog.domain.values import Receipt, Tool

from .formats import DEFAULT_API, FORMATS, api_by, reader_of
from .formats.reading import Reply, Result, Spoken, read_tool
from .messages.json_fields import same_from_start
from .messages.message import EMPTY_BLOBS, Body
from .requests.as_sent import Patches, as_sent
from .requests.incremental.series import LaneSeries
from .requests.pipeline.lane import LaneId
from .requests.pipeline.tool_groups import PREVIEW_RULE
from .requests.request import Request, sent_under
from .requests.sendable import may_be_asked

Object = dict[str, Any]


class _ModelCall(NamedTuple):
    """A model call: the entry that it led to, its API, and its receipt, if there is one."""

    position: int
    api: str
    receipt: Receipt | None


class _Group(NamedTuple):
    """The calls of one lane under one policy, by the position of their requests."""

    series: LaneSeries
    calls: dict[int, list[_ModelCall]]


class InputMessages:
    """The requests of a log's model calls, as attributes, built while the log is read once.

    Those of entries up to the position `after` are left out. `tools`: with the definitions of tools. Unless
    `whole`, each has only what the request before it in its lane has not.
    """

    def __init__(
        self,
        log: Sequence[Entry],
        blobs: Mapping[str, bytes] = EMPTY_BLOBS,
        *,
        after: int = 0,
        tools: bool = False,
        whole: bool = True,
    ) -> None:
        self._log, self._blobs, self._tools, self._whole = log, blobs, tools, whole
        self._before: dict[LaneId, Object] = {}
        self._patches = Patches.of(log)
        self._cards = settings(log)
        self._groups: dict[object, _Group] = {}
        self._found: dict[int, Object] = {}
        for entry in log:
            if entry.position > after and isinstance(
                said := entry.event, events.AssistantMessage | events.LlmError
            ):
                self._wait(entry, said)

    def take(self, entry: Entry) -> None:
        """Take the next entry, and build the requests that were made after it."""
        for key, group in [*self._groups.items()]:
            group.series.take(entry)
            for call in group.calls.pop(entry.position, ()):
                if group.series.refused is None and may_be_asked(group.series.window):
                    self._found[call.position] = self._attributes(group.series, call)
            if not group.calls:
                del self._groups[key]

    def pop(self, position: int) -> Object:
        """Return the attributes of the call that led to an entry; none if its request cannot be built."""
        return self._found.pop(position, {})

    def _wait(self, entry: Entry, said: events.AssistantMessage | events.LlmError) -> None:
        lane, receipt = LaneId(said.agent, said.task), said.receipt
        try:
            chosen = sent_under(receipt) if receipt else None
            key = (lane, json.dumps(receipt.policy, sort_keys=True) if receipt else "", str(chosen))
            if key not in self._groups:
                series = LaneSeries(lane, chosen, self._read, blobs=self._blobs)
                self._groups[key] = _Group(series, defaultdict(list))
        except StenologError:  # a policy that is not here
            return
        card = self._cards.card_of(said.agent)
        api = receipt.api.partition("@")[0] if receipt else api_by(card.provider, said.model or card.model)
        if not api or (api in FORMATS and FORMATS[api].read):
            call = _ModelCall(entry.position, api or DEFAULT_API, receipt)
            self._groups[key].calls[receipt.view if receipt else entry.position - 1].append(call)

    def _read(self, position: int) -> Sequence[Entry]:
        return self._log[:position]

    def _attributes(self, series: LaneSeries, call: _ModelCall) -> Object:
        try:
            request = as_sent(series.request(call.api), call.receipt, self._patches, self._blobs)
        except StenologError:
            return {}
        lane, body = series.window.lane, _without_preview(request)
        before = {} if self._whole else self._before.get(lane, {})
        if not self._whole:
            self._before[lane] = body
        given, earlier = (each.get(request.messages_key) for each in (body, before))
        messages = given if isinstance(given, list) else [{"role": "user", "content": given}]
        new = messages[same_from_start(messages, earlier) if isinstance(earlier, list) else 0 :]
        found = attributes_of(body, new, call.api, tools=self._tools)
        if before:
            old = attributes_of(before, [], call.api, tools=self._tools)
            found = {name: value for name, value in found.items() if name == INPUT or old.get(name) != value}
            found["stenolog.input.left_out"] = len(messages) - len(new)
        if call.receipt is None:
            found["stenolog.input.rebuilt"] = True
        return found


INPUT = "gen_ai.input.messages"


def _without_preview(request: Request) -> Body:
    """Return a request's body without the note for a reader: the model that answered was not sent it."""
    messages = request.body.get(request.messages_key)
    notes = {part.message for part in request.parts if part.rule == PREVIEW_RULE}
    if not notes or not isinstance(messages, list):
        return request.body
    sent = [message for nth, message in enumerate(messages) if nth not in notes]
    return {**request.body, request.messages_key: sent}


def attributes_of(body: Body, messages: Sequence[Any], api: str, *, tools: bool = False) -> Object:
    """Return a request's messages, its system prompt, and the `tools` if asked for, as attributes."""
    reader = reader_of(api)
    items = [item for each in messages for item in reader.message(each, "", {})]
    prompt = [] if reader.instructs_by_message else reader.system(body)
    found = {
        INPUT: compact([message for item in items if (message := _message(item))]),
        "gen_ai.system_instructions": compact([{"type": "text", "content": text} for text in prompt])
        if prompt
        else "",
    }
    if tools and (known := reader.tools(body)):
        found["gen_ai.tool.definitions"] = compact([_definition(read_tool(tool)) for tool in known])
    return found


def output_messages(said: events.AssistantMessage | events.LlmError) -> str:
    """Return the message that the model gave."""
    message: Object = {"role": "assistant", "parts": _parts(said.parts)}
    if isinstance(said, events.AssistantMessage):
        message["finish_reason"] = said.finish_reason
    return compact([message])


def compact(value: object) -> str:
    """Return the value as JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _message(item: Spoken | Reply | Result) -> Object:
    match item:
        case Spoken(role=role, parts=parts, name=name):
            named = {"name": name} if name else {}
            return {"role": role, **named, "parts": _parts(parts)}
        case Reply(parts=said):
            return {"role": "assistant", "parts": _parts(said)}
        case Result(call_id=id, parts=parts):
            response: object = [*_parts(parts)]
            if len(parts) == 1 and isinstance(parts[0], TextPart):
                response = parts[0].text
            return {
                "role": "tool",
                "parts": [{"type": "tool_call_response", "id": id, "response": response}],
            }


def _parts(parts: Sequence[Part]) -> list[Object]:
    return [made for part in parts if (made := _part(part))]


def _part(part: Part) -> Object | None:
    match part:
        case TextPart(text=text):
            return {"type": "text", "content": text}
        case RefusalPart(text=text):
            return {"type": "refusal", "content": text}
        case ReasoningPart(text=text):
            return {"type": "reasoning", "content": text} if text else None
        case ToolCall(id=id, name=name, arguments=arguments):
            return {"type": "tool_call", "id": id, "name": name, "arguments": arguments}
        case ImagePart(media_type=media) | FilePart(media_type=media):
            modality = media.partition("/")[0]
            known = modality if modality in ("image", "video", "audio") else "document"
            uri = part.url or f"sha256:{part.blob}"
            return {"type": "uri", "mime_type": media, "modality": known, "uri": uri}
        case _:
            return {"type": part.type}


def _definition(tool: Tool) -> Object:
    about = {"description": tool.description} if tool.description else {}
    return {
        "type": "function",
        "name": tool.name,
        **about,
        "parameters": json.loads(json.dumps(tool.parameters)),
    }
