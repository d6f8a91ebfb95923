"""LangChain messages in a state's channels, each as an event. The checkpoint is exact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from stenolog import events, parts
from stenolog.importers import Blobs, as_dict, as_int, as_str, compact_json, keep_base64

from .stored_values import Ref, ValueLink, items_of, sha_of

Spoken = events.UserMessage | events.AssistantMessage | events.ToolResult
Block: TypeAlias = dict[str, Any]
PERSON = ("human", "user")
SYSTEM = ("system", "developer")
MEDIA = {"image": "image/png", "audio": "audio/wav", "video": "video/mp4", "file": "application/octet-stream"}


def event_of(
    message: BaseMessage, agent: str, call: events.CallRef | None, blobs: Blobs, brief_of: str = ""
) -> Spoken:
    """Return a message as an event; `call` is the call that it answers, if known.

    `agent` speaks if the message names nobody; in a subgraph `brief_of` speaks as the human. Its bytes are
    added to the blobs.
    """
    source = events.Origin(system="langchain", id=clean(message.id or ""), role=message.type)
    blocks = _blocks(message)
    match message:
        case AIMessage():
            said = _answer(message, blocks, name_of(message.name or agent))
            return replace(said, source=source)
        case ToolMessage():
            return events.ToolResult(
                call_id=clean(message.tool_call_id),
                call=call,
                name=clean(message.name or ""),
                parts=tuple(_input_part(block, blobs) for block in blocks),
                is_error=message.status == "error",
                source=source,
            )
        case _:
            role = as_str(getattr(message, "role", "")) or message.type
            named = "" if role in (*PERSON, *SYSTEM) else role
            human: events.AuthorKind = "agent" if brief_of else "person"
            return events.UserMessage(
                parts=tuple(_input_part(block, blobs) for block in blocks),
                author=clean(message.name or named or (brief_of if role in PERSON else "")),
                author_kind=human if role in PERSON else "system",
                source=source,
            )


def name_of(agent: str) -> str:
    """Return a valid agent's name: not empty, without a slash."""
    return clean(agent).replace("/", "-") or "assistant"


def clean(said: str) -> str:
    """Return the text with half surrogate pairs as question marks."""
    return said.encode("utf-8", "replace").decode()


def _blocks(message: BaseMessage) -> list[Block]:
    """Return the content in LangChain's common form, unchanged if it cannot be translated."""
    try:
        return [as_dict(block) for block in message.content_blocks]
    except Exception:  # whatever a translator trips over: no checkpoint may fail for it
        content = message.content if isinstance(message.content, list) else [message.content]
        return [{"type": "text", "text": one} if isinstance(one, str) else as_dict(one) for one in content]


def _answer(message: AIMessage, blocks: list[Block], agent: str) -> events.AssistantMessage:
    metadata = as_dict(message.response_metadata)
    return events.AssistantMessage(
        agent=agent,
        parts=tuple(_answer_parts(message, blocks)),
        model=clean(as_str(metadata.get("model_name")) or as_str(metadata.get("model"))),
        finish_reason=clean(as_str(metadata.get("finish_reason")) or as_str(metadata.get("stop_reason"))),
        usage=_usage(as_dict(message.usage_metadata)),
    )


def _answer_parts(message: AIMessage, blocks: list[Block]) -> Iterator[parts.AssistantPart]:
    """Yield the parts, each call at the block that names it, or at the end."""
    provider = clean(as_str(as_dict(message.response_metadata).get("model_provider")))
    calls = list(message.tool_calls)
    for block in blocks:
        if block.get("type") != "tool_call":
            yield _said_part(block, provider or "langchain")
        elif call := next((one for one in calls if one["id"] == block.get("id")), None):
            calls.remove(call)
            yield _call(call["id"], call["name"], as_json(call["args"]))
    for call in calls:
        yield _call(call["id"], call["name"], as_json(call["args"]))
    for bad in message.invalid_tool_calls:
        yield _call(bad["id"], bad["name"], bad["args"] or "")


def _call(id: str | None, name: str | None, arguments: str) -> parts.ToolCall:
    return parts.ToolCall(id=clean(id or ""), name=clean(name or ""), arguments=clean(arguments))


def _said_part(block: Block, provider: str) -> parts.AssistantPart:
    match block:
        case {"type": "text", "text": str(words)}:
            return parts.TextPart(text=clean(words))
        case {"type": "reasoning"}:
            extras = as_dict(block.get("extras"))
            proof = {name: block.get(name) or extras.get(name) for name in ("signature", "encrypted_content")}
            return parts.ReasoningPart(
                text=clean(as_str(block.get("reasoning"))),
                provider=provider,
                id=clean(as_str(block.get("id"))),
                signature=clean(as_str(proof["signature"])),
                encrypted=clean(as_str(proof["encrypted_content"])),
            )
        case _:
            return parts.ProviderPart(provider=provider, raw=_raw(block))


def _input_part(block: Block, blobs: Blobs) -> parts.UserPart:
    match block:
        case {"type": "text", "text": str(words)}:
            return parts.TextPart(text=clean(words))
        case {"type": "image" | "audio" | "video" | "file" as kind}:
            return _file(block, kind, blobs) or parts.TextPart(text=_raw(block))
        case _:
            return parts.TextPart(text=_raw(block))


def _file(block: Block, kind: str, blobs: Blobs) -> parts.UserPart | None:
    media_type = clean(as_str(block.get("mime_type"))) or MEDIA[kind]
    blob = keep_base64(as_str(block.get("base64")), blobs) or ""
    url = clean(as_str(block.get("url")) or as_str(block.get("file_id")))
    if not (blob or url):
        return None
    if kind == "image":
        return parts.ImagePart(media_type=media_type, blob=blob, url=url)
    return parts.FilePart(
        name=clean(as_str(block.get("filename"))), media_type=media_type, blob=blob, url=url
    )


def _raw(block: Block) -> str:
    return clean(as_json(block.get("value", block) if block.get("type") == "non_standard" else block))


def as_json(value: object) -> str:
    """Return the value as JSON; values that JSON lacks, as Python writes them."""
    try:
        return compact_json(value)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def _usage(counted: dict[str, Any]) -> events.Usage | None:
    if not counted:
        return None
    read, made = as_dict(counted.get("input_token_details")), as_dict(counted.get("output_token_details"))
    # With these two, LangChain sets the sum of both to 0.
    minutes, hour = (as_int(read.get(f"ephemeral_{time}_input_tokens")) for time in ("5m", "1h"))
    return events.Usage(
        input=as_int(counted.get("input_tokens")),
        output=as_int(counted.get("output_tokens")),
        cache_read=as_int(read.get("cache_read")),
        cache_write=as_int(read.get("cache_creation")) or minutes + hour,
        reasoning=as_int(made.get("reasoning")),
        cache_write_hour=hour,
    )


_MISSING = object()
SPOKEN_IN = ("__root__", "__previous__")
"""Channels of a graph without names for its state, and of an `@entrypoint`: what it saves."""


class ChannelMessage(NamedTuple):
    """A message in a channel; `id` is its own or empty, `place` distinguishes those without."""

    channel: str
    id: str
    place: str
    message: BaseMessage
    sha: str

    @property
    def key(self) -> str:
        """The key that identifies the message in its thread."""
        return key_of(self.channel, self.id) if self.id else f"{self.channel}{self.place}"

    @property
    def call_ids(self) -> list[str]:
        """The ids of the calls that it makes."""
        if not isinstance(self.message, AIMessage):
            return []
        calls = [*self.message.tool_calls, *self.message.invalid_tool_calls]
        return [clean(call["id"] or "") for call in calls]


def key_of(channel: str, id: str) -> str:
    """Return the key of the messages of that id."""
    return f"{channel}:{id}"


def messages_in(
    values: Mapping[str, Any], refs: Mapping[str, Ref], links: Mapping[str, ValueLink], place: str = ""
) -> list[list[ChannelMessage]]:
    """Return each channel's messages, longest first: a single one beside a list often belongs to it.

    LangGraph's own channels, but two, hold what comes into these later.
    """
    channels = (name for name in values if not name.startswith("__") or name in SPOKEN_IN)
    found = [[*_of_channel(name, values[name], refs[name], links, place)] for name in channels]
    return sorted(found, key=len, reverse=True)


def _of_channel(
    name: str, value: Any, ref: Ref, links: Mapping[str, ValueLink], place: str
) -> Iterator[ChannelMessage]:
    if type(value) is _DeltaSnapshot:
        value, ref = value.value, ref.get("delta")
    is_one = isinstance(value, BaseMessage)
    several = [value] if is_one else value if type(value) is list else []
    items = [ref] if is_one else items_of(ref, links)
    for nth, (message, item) in enumerate(zip(several, items, strict=False)):
        if isinstance(message, BaseMessage) and (sha := sha_of(item)):
            yield ChannelMessage(name, clean(message.id or ""), f"{place}[{nth}]", message, sha)


def matches(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether a checkpoint's metadata has all these values.

    Dots in a key may lead into nested mappings.
    """
    return all(_at(metadata, key) == value for key, value in wanted.items())


def _at(metadata: Mapping[str, Any], key: str) -> Any:
    if key in metadata:
        return metadata[key]
    first, _, rest = key.partition(".")
    inner = metadata.get(first)
    return _at(inner, rest) if rest and isinstance(inner, Mapping) else _MISSING
