"""Logs of many kinds, their packs, and the verdict on these."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from io import BytesIO, StringIO
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import stenolog
from clients.verify import verify_evidence
from stenolog import (
    AssistantMessage,
    Conversation,
    Event,
    LlmError,
    Log,
)
from stenolog.errors import (
    StenologError,
)
from stenolog.importers import (
    PackContents,
    Report,
    export_jsonl,
    import_file,
    write_pack,
)
from tests.recording.given import Tap, anthropic, assistant, call, result, said, user
from tests.requests.histories import BLOBS, history


def check(pack: bytes, key: str | None = None) -> dict[str, Any]:
    """Return the verdict of the verifier."""
    verify_pack: Any = verify_evidence.verify
    found: dict[str, Any] = verify_pack(BytesIO(pack), None, key)
    return found


def pack_of(conversation: Conversation, **contents: Any) -> bytes:
    stream = StringIO()
    write_pack(conversation, stream, PackContents(**contents))
    return stream.getvalue().encode()


def brought(log: Log, content: bytes, name: str | None = None) -> Report:
    """Import a file with this content."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_bytes(content)
        return import_file(log, path, name=name)


def with_receipt(conversation: Conversation, event: Event) -> Event:
    """Return an answer with the receipt of the request that would be sent now."""
    if isinstance(event, AssistantMessage | LlmError) and event.receipt is None and len(conversation):
        with suppress(StenologError):
            request = conversation.request(event.agent, task=event.task)
            sent = sha256(request.bytes).hexdigest()
            return replace(event, receipt=replace(request.receipt, sent=sent, transport={"method": "POST"}))
    return event


def random_log(seed: int) -> Iterator[Conversation]:
    """Yield the conversations of a log with forks, erasures, renames and imports, and a recorded one."""
    random, log = Random(seed), stenolog.open(":memory:")
    log.blobs.put_all(BLOBS.values())
    names = ["talk"]
    for entry in history(seed, longest=20):
        talk = log[random.choice(names)]
        with suppress(StenologError):
            talk.append(with_receipt(talk, entry.event), time=entry.time)
        with suppress(StenologError):
            match random.randrange(8):
                case 0:
                    names.append(talk.fork(random.randint(0, talk.position)).name)
                case 1:
                    talk.erase(random.randint(1, max(1, talk.position)), by="Ada", reason="a password")
                case 2:
                    text = StringIO()
                    export_jsonl(talk, text)
                    brought(log, text.getvalue().encode(), name=f"{talk.name} again")
                    names.append(f"{talk.name} again")
                case _:
                    talk.rename(f"{talk.name}!")
                    names[names.index(talk.name[:-1])] = talk.name
    tap = Tap(log)
    first = anthropic(user(f"Which test fails in {seed}?"))
    tap.send(first, said("I look.", call("t1", cmd="ls")))
    asked = [*first["messages"], assistant("I look.", call("t1", cmd="ls")), user(result("t1"))]
    tap.send(anthropic(*asked), said("Three."))
    yield from (log[name] for name in log.names(archived=True) if log[name].position)
