"""Export of a conversation as an evaluation log of inspect_ai with one sample, as JSON.

Scores are the tags `name=value`; what the format cannot say is the remainder in the sample's `metadata`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any

from stenolog.analysis import settings
from stenolog.errors import CallerError
from stenolog.events import AssistantMessage, Entry, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.importers import Exporter, JsonObject, as_dict, openai_content, with_remainder
from stenolog.parts import ImagePart, Part, ReasoningPart, RefusalPart, TextPart
from stenolog.requests import tool_function

from .samples import SYSTEM, conversation_of

if TYPE_CHECKING:
    from stenolog import Conversation

VERSION = 2
UNNAMED = "none/none"
"""The name of a model that no card and no answer names."""


def document(conversation: Conversation) -> JsonObject:
    """Return the evaluation log. Raises `CallerError` for a conversation without entries."""
    entries = [*conversation.entries()]
    if not entries:
        raise CallerError(f"{conversation.name!r}: expected a conversation with entries, found none")
    messages = [*_messages(entries, conversation.log.blobs)]
    model = next((found["model"] for found in messages if found.get("model")), UNNAMED)
    begun, ended = (entry.time.astimezone(UTC).isoformat() for entry in (entries[0], entries[-1]))
    scores = dict(_scores(entries))
    sample: JsonObject = {
        "id": conversation.name,
        "epoch": 1,
        "target": "",
        "metadata": {},
        "input": next((found["content"] for found in messages if found["role"] == "user"), ""),
        "messages": messages,
        "started_at": begun,
        "completed_at": ended,
        "model_usage": {model: _usage(entries)},
        **({"scores": scores} if scores else {}),
    }
    if not isinstance(sample["input"], str):
        sample["input"] = [next(found for found in messages if found["role"] == "user")]
    about = {
        "created": begun,
        "task": settings(entries).title or conversation.name,
        "model": model,
        "dataset": {"name": "stenolog", "samples": 1, "sample_ids": [conversation.name]},
        "config": {},
    }
    made: JsonObject = json.loads(
        json.dumps(
            {
                "version": VERSION,
                "status": "success",
                "eval": about,
                "samples": [sample],
                "plan": {},
                "results": {"total_samples": 1, "completed_samples": 1, "scores": []},
                "stats": {"started_at": begun, "completed_at": ended},
            }
        )
    )
    (its,) = made["samples"]
    with_remainder(its, its["metadata"], conversation, conversation_of(its, made["eval"]))
    return made


def _messages(entries: Sequence[Entry], blobs: Mapping[str, bytes]) -> Iterator[JsonObject]:
    """Yield what was said in context."""
    calls: dict[tuple[str, int], str] = {}
    prompts: dict[str, str] = {}
    for entry in entries:
        match entry.event:
            case ModeSwitch(cards=cards):
                for name, card in cards.items():
                    if card is not None and card.persona and prompts.get(name) != card.persona:
                        prompts[name] = card.persona
                        yield {"id": f"{entry.id}:{name}", "role": "system", "content": card.persona}
            case UserMessage(in_context=True, author_kind=kind) as said if said.parts:
                role = "system" if kind == "system" else "user"
                yield {"id": entry.id, "role": role, "content": _content(said.parts, blobs)}
            case AssistantMessage() | LlmError() as answer if answer.parts:
                calls |= {(entry.id, nth): call.id for nth, call in enumerate(answer.tool_calls)}
                yield _answer(entry, answer, blobs)
            case ToolResult() as result:
                id = result.call_id
                if result.call is not None:
                    id = calls.get((result.call.entry, result.call.index), id)
                found: JsonObject = {"id": entry.id, "role": "tool", "content": _content(result.parts, blobs)}
                found |= {"tool_call_id": id, "function": result.name or None}
                if result.is_error:
                    found["error"] = {"type": "unknown", "message": result.text}
                yield found
            case _:
                pass


def _answer(entry: Entry, answer: AssistantMessage | LlmError, blobs: Mapping[str, bytes]) -> JsonObject:
    made: JsonObject = {"id": entry.id, "role": "assistant", "source": "generate"}
    made["content"] = _content([part for part in answer.parts if part.type != "tool_call"], blobs)
    if calls := answer.tool_calls:
        made["tool_calls"] = [
            {
                "id": call.id,
                "function": call.name,
                "type": "function",
                "arguments": tool_function(call)["arguments"],
            }
            for call in calls
        ]
    if answer.model:
        made["model"] = answer.model
    return {**made, "metadata": {"agent": answer.agent}}


def _content(parts: Sequence[Part], blobs: Mapping[str, bytes]) -> Any:
    """Return parts as a text, or as contents."""
    found = [_part(part, blobs) for part in parts]
    if len(found) == 1 and found[0].get("type") == "text":
        return found[0]["text"]
    return found or ""


def _part(part: Part, blobs: Mapping[str, bytes]) -> JsonObject:
    match part:
        case TextPart(text=text) | RefusalPart(text=text):
            return {"type": "text", "text": text}
        case ReasoningPart(text=text, signature=signature):
            return {"type": "reasoning", "reasoning": text, "signature": signature or None}
        case ImagePart() if part.url or part.blob in blobs:
            shown: Any = openai_content([part], blobs)
            return {"type": "image", "image": shown[0]["image_url"]["url"]}
        case _:
            return {"type": "text", "text": f"[{part.type}: not in this format]"}


def _scores(entries: Sequence[Entry]) -> Iterator[tuple[str, JsonObject]]:
    """Yield the scores that a log had, and those that tags say."""
    for entry in entries:
        meta, tags = getattr(entry.event, "meta", {}), getattr(entry.event, "tags", ())
        known = as_dict(as_dict(meta.get(SYSTEM)).get("scores"))
        yield from (
            (name, score) for name, score in known.items() if isinstance(score, dict) and "value" in score
        )
        for name, found, value in (tag.partition("=") for tag in tags):
            if name and found and name not in known:
                yield name, {"value": value}


def _usage(entries: Sequence[Entry]) -> JsonObject:
    used = [usage for entry in entries if (usage := getattr(entry.event, "usage", None)) is not None]
    read, wrote = (sum(getattr(each, name) for each in used) for name in ("cache_read", "cache_write"))
    total, output = sum(each.input for each in used), sum(each.output for each in used)
    return {
        "input_tokens": max(total - read - wrote, 0),
        "output_tokens": output,
        "total_tokens": total + output,
        "input_tokens_cache_read": read,
        "input_tokens_cache_write": wrote,
        "reasoning_tokens": sum(each.reasoning for each in used),
    }


TO_INSPECT_AI = Exporter.of_document("inspect-ai", "a log of inspect_ai", document)
