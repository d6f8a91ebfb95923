"""A moment as a program: the call of the provider's own SDK, or of the program that takes the prompt."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from stenolog.domain.errors import CallerError
from stenolog.projections.messages.body_digest import PROMPT
from stenolog.projections.requests.transport import Transport

from .endpoints import ENDPOINTS
from .moment import Moment
from .python_literals import docstring, literal

MODEL = re.compile(r"models/([^/:]+):")
# No more of them: a function of the SDK loses fields from one release to the next.
NAMED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "openai-chat": ("model", "messages", "tools"),
        "openai-responses": ("model", "input", "instructions", "tools"),
        "anthropic": ("model", "messages", "system", "tools", "max_tokens"),
    }
)
"""The fields that are given to the SDK's function by name; others go as its `extra_body`."""
CALLS = MappingProxyType(
    {
        "openai-chat": ("from openai import OpenAI", "OpenAI()", "chat.completions"),
        "openai-responses": ("from openai import OpenAI", "OpenAI()", "responses"),
        "anthropic": ("from anthropic import Anthropic", "Anthropic()", "messages"),
    }
)


def as_python(moment: Moment) -> str:
    """Return the program. Raises `CallerError` for an API that it cannot be written for."""
    write = WRITERS.get(moment.api)
    if write is None:
        known = ", ".join(WRITERS)
        raise CallerError(f"--as python: expected one of the APIs {known}, found {moment.api}")
    return write(moment)


def _by_sdk(moment: Moment) -> str:
    imports, client, resource = CALLS[moment.api]
    body, names = moment.request.body, NAMED[moment.api]
    named = {key: value for key, value in body.items() if key in names}
    extra = {key: value for key, value in body.items() if key not in names}
    # Recorded programs stream, and the SDK would take the stream for one answer.
    is_stream = extra.pop("stream", False) is True
    others = f"\nEXTRA = {literal(extra)}\n" if extra else ""
    given = ", ".join(["**BODY", *["extra_body=EXTRA"] * bool(extra), *["stream=True"] * is_stream])
    headers = moment.sent.headers if moment.sent else {}
    if headers:
        given += ", extra_headers=HEADERS"
        others += f"\nHEADERS = {literal(dict(headers))}\n"
    return f"""{_head(moment, _key(moment))}

{imports}

BODY = {literal(named)}
{others}
client = {client}
{_call_and_print(f"client.{resource}.create({given})", is_stream=is_stream)}
"""


def _call_and_print(call: str, *, is_stream: bool) -> str:
    if is_stream:
        return f"for event in {call}:\n    print(event.model_dump_json())"
    return f"answer = {call}\nprint(answer.model_dump_json(indent=2))"


def _by_gemini(moment: Moment) -> str:
    body: dict[str, Any] = dict(moment.request.body)
    model, contents = body.pop("model", "") or _model_in(moment.sent), body.pop("contents")
    # The SDK takes the settings of the generation beside the others, and puts them back where they belong.
    config = {**body.pop("generationConfig", {}), **body}
    return f"""{_head(moment, _key(moment))}

from google import genai

MODEL = {literal(model)}

CONTENTS = {literal(contents)}

CONFIG = {literal(config)}

client = genai.Client()
answer = client.models.generate_content(model=MODEL, contents=CONTENTS, config=CONFIG)
print(answer.model_dump_json(indent=2))
"""


def _model_in(transport: Transport | None) -> str:
    """Return the model in the address that a request went to."""
    found = MODEL.search(transport.path if transport else "")
    return found[1] if found else ""


def _by_program(moment: Moment) -> str:
    transport = moment.sent or Transport("stdin", style="text")
    if transport.style not in ("text", "string", "lines"):
        transport = Transport("stdin", style="text")
    how = "The program and its options are the arguments: python FILE claude -p"
    if transport.method == "argument":
        prompt = literal(moment.request.body[PROMPT])
        call = "subprocess.run([*sys.argv[1:], PROMPT], check=True)"
    else:
        prompt = literal(moment.render(transport).decode())
        call = "subprocess.run(sys.argv[1:], input=PROMPT.encode(), check=True)"
    return f"""{_head(moment, how)}

import subprocess
import sys

PROMPT = {prompt}

{call}
"""


def _key(moment: Moment) -> str:
    return f"The key is read from {ENDPOINTS[moment.api].key_variable}."


def _head(moment: Moment, how: str) -> str:
    request = moment.request
    where = f"The request of {moment.address} at {request.at} of {moment.conversation}."
    return docstring(where, how, "" if request.sendable else f"It cannot be sent: {request.reason}.")


WRITERS: Mapping[str, Callable[[Moment], str]] = MappingProxyType(
    {**dict.fromkeys(CALLS, _by_sdk), "gemini": _by_gemini, "plain": _by_program}
)
"""The writers by the names of the APIs."""
