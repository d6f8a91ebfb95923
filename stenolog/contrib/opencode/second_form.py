"""Rows of `session_message`, the form of messages in later releases, as messages and parts of the first form.

Facts of the format: `packages/core/src/session/message.ts` of anomalyco/opencode.
"""

from __future__ import annotations

from stenolog.importers import JsonObject, as_dict, as_list, as_str, compact_json

from .stored import StoredMessage, message_of


def message_of_row(data: JsonObject, id: str, type: str) -> StoredMessage:
    """Return the message of a row; one that says nothing has a role that no message has."""
    about: JsonObject = {"id": id, "time": data.get("time"), "agent": data.get("agent")}
    text = as_str(data.get("text"))
    match type:
        case "user":
            parts = [_text(text), *(_file(as_dict(each)) for each in as_list(data.get("files")))]
            return message_of({**about, "role": "user"}, parts, id)
        case "synthetic" | "system":
            return message_of({**about, "role": "user"}, [{**_text(text), "synthetic": True}], id)
        case "shell":
            wording = f"Ran `{as_str(data.get('command'))}`\n{as_str(data.get('output'))}"
            return message_of({**about, "role": "user"}, [_text(wording)], id)
        case "assistant":
            facts = ("model", "cost", "tokens", "finish")
            info = {**about, "role": "assistant", **{name: data.get(name) for name in facts}}
            if data.get("error"):
                info["error"] = data["error"]
            content = [as_dict(part) for part in as_list(data.get("content"))]
            return message_of(
                info, [_part(part, f"{id}-{nth}") for nth, part in enumerate(content) if part], id
            )
        case "compaction":
            wording = "\n\n".join(filter(None, (as_str(data.get("summary")), as_str(data.get("recent")))))
            info = {**about, "role": "assistant", "summary": True, "finish": "stop"}
            return message_of(info, [_text(wording)], id)
        case _:
            return message_of({**about, "role": type}, [], id)


def _text(wording: str) -> JsonObject:
    return {"type": "text", "text": wording}


def _file(file: JsonObject) -> JsonObject:
    url = as_str(file.get("uri")) or as_str(file.get("url"))
    name = as_str(file.get("name")) or as_str(file.get("filename"))
    return {"type": "file", "url": url, "mime": file.get("mime"), "filename": name}


def _part(part: JsonObject, id: str) -> JsonObject:
    """Return a part of an answer; ids of its own are unique in the answer alone."""
    match part.get("type"):
        case "tool":
            return {**_tool(part), "id": id}
        case "reasoning":
            return {**part, "id": id, "metadata": part.get("providerMetadata")}
        case _:
            return {**part, "id": id}


def _tool(part: JsonObject) -> JsonObject:
    state, times = as_dict(part.get("state")), as_dict(part.get("time"))
    raw = state.get("input")
    converted: JsonObject = {"status": state.get("status")}
    converted |= {"raw": raw} if isinstance(raw, str) else {"input": raw}
    converted["time"] = {
        "start": times.get("ran") or times.get("created"),
        "end": times.get("completed"),
        "compacted": times.get("pruned"),
    }
    content = [as_dict(each) for each in as_list(state.get("content"))]
    converted["output"] = "\n".join(as_str(each.get("text")) for each in content if "text" in each) or (
        compact_json(state["structured"]) if state.get("structured") else ""
    )
    files = [each for each in content if each.get("type") in ("file", "media", "image")]
    converted["attachments"] = [
        _file(each) for each in (*files, *map(as_dict, as_list(state.get("attachments"))))
    ]
    converted["error"] = state.get("error")
    return {
        "type": "tool",
        "callID": part.get("id"),
        "tool": part.get("name"),
        "state": converted,
        "metadata": as_dict(part.get("provider")).get("metadata"),
    }
