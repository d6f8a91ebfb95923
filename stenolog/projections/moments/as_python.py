"""A moment as a program: a call of the provider's SDK, or of the program that takes the prompt."""

from __future__ import annotations

import json
import re
from typing import Any

from stenolog.domain.errors import CallerError
from stenolog.projections.formats import FORMATS
from stenolog.projections.formats.endpoint import Endpoint
from stenolog.projections.messages.body_digest import PROMPT
from stenolog.projections.requests.transport import Transport

from .endpoints import known_endpoint
from .moment import Moment

WIDTH = 88
DEEPEST = 40
"""Python takes some hundred brackets in each other; what lies deeper is written as JSON."""


def literal(value: Any, depth: int = 0) -> str:
    """Return a JSON value as a Python literal; invisible characters are escaped."""
    if isinstance(value, str):
        return _text(str(value), depth)
    if not isinstance(value, dict | list | tuple) or not value:
        return repr(value)
    if depth >= DEEPEST:
        return f'__import__("json").loads({_quoted(json.dumps(value))})'
    indent = "    " * depth
    if isinstance(value, dict):
        items = [f"{_quoted(str(key))}: {literal(inner, depth + 1)}" for key, inner in value.items()]
        first, last = "{", "}"
    else:
        items, first, last = [literal(inner, depth + 1) for inner in value], "[", "]"
    line = first + ", ".join(items) + last
    if len(line) + len(indent) <= WIDTH and "\n" not in line:
        return line
    rows = "".join(f"{indent}    {item},\n" for item in items)
    return f"{first}\n{rows}{indent}{last}"


def docstring(*paragraphs: str) -> str:
    """Return paragraphs as the docstring of a module."""
    words = "\n\n".join(
        _quoted(text)[1:-1].replace("\\'", "'").replace('"', "'") for text in paragraphs if text
    )
    return f'"""{words}\n"""' if "\n" in words else f'"""{words}"""'


def _text(text: str, depth: int) -> str:
    lines = text.splitlines(keepends=True)
    if len(lines) < 2 or len(text) <= WIDTH - 4 * depth:
        return _quoted(text)
    indent = "    " * (depth + 1)
    rows = "".join(f"{indent}{_quoted(line)}\n" for line in lines)
    return f"(\n{rows}{indent[4:]})"


def _quoted(text: str) -> str:
    quoted = repr(text)
    return f'"{quoted[1:-1]}"' if quoted[0] == "'" and '"' not in quoted else quoted


MODEL = re.compile(r"models/([^/:]+):")


def as_python(moment: Moment) -> str:
    """Return the program. Raises `CallerError` for an API that has no such form."""
    if (endpoint := known_endpoint(moment.api)) is not None:
        write = _with_settings if endpoint.sdk.settings else _with_body
        return write(moment, endpoint)
    if isinstance(moment.request.body.get(PROMPT), str):
        return _by_program(moment)
    known = ", ".join(api for api in FORMATS if known_endpoint(api) or FORMATS[api].messages == PROMPT)
    raise CallerError(f"--as python: expected one of the APIs {known}, found {moment.api}")


def _with_body(moment: Moment, endpoint: Endpoint) -> str:
    sdk, body = endpoint.sdk, moment.request.body
    named = {key: value for key, value in body.items() if key in sdk.fields}
    extra = {key: value for key, value in body.items() if key not in sdk.fields}
    # Recorded programs stream, and the SDK would take the stream for one answer.
    is_stream = extra.pop("stream", False) is True
    headers = dict(moment.sent.headers) if moment.sent else {}
    beside = ((sdk.extra_body, "EXTRA", extra), (sdk.extra_headers, "HEADERS", headers))
    others = "".join(f"\n{name} = {literal(value)}\n" for _, name, value in beside if value)
    call = sdk.stream_call if is_stream and sdk.stream_call else sdk.call
    given = ["**BODY", *["stream=True"] * (is_stream and call == sdk.call)]
    named_so = {argument: name for argument, name, value in beside if value}
    if sdk.options and named_so:
        given.append(f"{sdk.options}={{{', '.join(f'{key!r}: {name}' for key, name in named_so.items())}}}")
    else:
        given += [f"{key}={name}" for key, name in named_so.items()]
    return f"""{_head(moment, _key(endpoint))}

{sdk.imports}

BODY = {literal(named)}
{others}
client = {sdk.client}
{_call_and_print(f"client.{call}({', '.join(given)})", is_stream=is_stream)}
"""


def _call_and_print(call: str, *, is_stream: bool) -> str:
    if is_stream:
        return f"for event in {call}:\n    print(event.model_dump_json())"
    return f"answer = {call}\nprint(answer.model_dump_json(indent=2))"


def _with_settings(moment: Moment, endpoint: Endpoint) -> str:
    body: dict[str, Any] = dict(moment.request.body)
    sdk, messages = endpoint.sdk, FORMATS[moment.api].messages
    model, contents = body.pop("model", "") or _model_in(moment.sent), body.pop(messages)
    # The SDK takes the settings of the generation beside the others, and puts them back where they belong.
    config = {**body.pop(sdk.settings, {}), **body}
    return f"""{_head(moment, _key(endpoint))}

{sdk.imports}

MODEL = {literal(model)}

{messages.upper()} = {literal(contents)}

CONFIG = {literal(config)}

client = {sdk.client}
answer = client.{sdk.call}(model=MODEL, {messages}={messages.upper()}, config=CONFIG)
print(answer.model_dump_json(indent=2))
"""


def _model_in(transport: Transport | None) -> str:
    found = MODEL.search(transport.path if transport else "")
    return found[1] if found else ""


def _by_program(moment: Moment) -> str:
    transport = moment.sent or Transport("stdin", style="text")
    if transport.style not in ("text", "string", "lines"):
        transport = Transport("stdin", style="text")
    how = "The program and its options are the arguments: python FILE PROGRAM -p"
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


def _key(endpoint: Endpoint) -> str:
    return f"The key is read from {endpoint.provider.key_variable}."


def _head(moment: Moment, how: str) -> str:
    request = moment.request
    return docstring(
        f"{moment.title}.", how, "" if request.sendable else f"It cannot be sent: {request.reason}."
    )
