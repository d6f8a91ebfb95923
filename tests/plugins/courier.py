"""The API of a provider that is none of those that ship: results name their calls by `ref`."""

from typing import Any

from stenolog import TextPart, ToolCall
from stenolog.events import Usage
from stenolog.models import StreamReader
from stenolog.requests import (
    BodyBuilder,
    CallIds,
    Endpoint,
    Format,
    MessageReader,
    Provider,
    Reply,
    Result,
    Sdk,
    Spoken,
    texts,
)


def render(messages: Any, preamble: Any, blobs: Any) -> Any:
    body, ids = BodyBuilder(blobs, preamble.counter), CallIds()
    body.explain_persona(preamble)
    for message in messages:
        turn: dict[str, Any] = {"by": message.role, "says": "\n".join(texts(message))}
        calls = [part for part in message.parts if isinstance(part, ToolCall)]
        for key, call in zip(message.calls, calls, strict=True):
            ask = {"ref": ids.give(key, call)[0], "tool": call.name, "with": call.arguments}
            turn.setdefault("asks", []).append(ask)
        if message.call:
            turn["ref"] = ids.of(message.call)
        body.messages.append(turn)
        body.explain(message, turn)
    kit = body.tools(preamble)
    return body.rendered(
        {"model": preamble.model, "rules": preamble.persona, "kit": kit, "turns": body.messages}
    )


def parts(turn: Any) -> tuple[Any, ...]:
    calls = (ToolCall(id=ask["ref"], name=ask["tool"], arguments=ask["with"]) for ask in turn.get("asks", ()))
    return (*([TextPart(text=turn["says"])] if turn.get("says") else []), *calls)


def read(turn: Any, model: str, blobs: Any) -> Any:
    said = (TextPart(text=turn["says"]),)
    other = Result(turn["ref"], said) if "ref" in turn else Spoken("user", said)
    yield Reply(parts(turn)) if turn["by"] == "assistant" else other


class Answer(StreamReader):
    provider = "courier"

    def is_event(self, given: Any) -> bool:
        return "turn" in given

    def deltas(self, event: Any) -> Any:
        for nth, part in enumerate(parts(event["turn"])):
            yield from self.parts.put(nth, part)
        self.usage, self.finish_reason = Usage(input=event["spent"][0], output=event["spent"][1]), "done"


READER = MessageReader(
    read,
    "courier",
    system=lambda body: [body["rules"]],
    tools=lambda body: body["kit"],
    on_card=frozenset(),
    holds=lambda messages: "by" in messages[0],
    role="by",
)
PLACE = Provider(("courier",), "https://courier.example", ("COURIER_URL",), "COURIER_KEY", "x-key: ", ("C_",))
SDK = Sdk("from courier import Courier", "Courier()", "turns.send", ("model", "turns"))
AT = Endpoint(PLACE, "/v9/turns", SDK)
COURIER = Format("courier", 1, render, messages="turns", read=lambda: READER, stream=Answer, endpoint=AT)
