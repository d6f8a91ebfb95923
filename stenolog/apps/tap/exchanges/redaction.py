"""The redaction of all recordings: secrets by their forms, and in requests by the names of their fields."""

from __future__ import annotations

import json
import re
from codecs import getincrementaldecoder
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from stenolog.apps.tap.heads import REDACTED, REQUEST_NAMES, SECRET_IN_NAME
from stenolog.projections.formats import FORMATS

from .exchange import decoded
from .redacted_stream import redacted_stream

KIND = "named"
"""The kind of secrets that their names tell, whatever their form."""
_HARMLESS = re.compile(r"authors?(?![a-z])|cache_?key|keyword|tokenizer|(bos|eos|pad|stop|unk)_token", re.I)
"""Parts of names that say nothing of a secret."""
_SCHEMAS = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
"""The keys in whose values names are those of a tool's parameters."""


def redacted_content(content: bytes, encoding: str) -> tuple[bytes, tuple[str, ...]]:
    """Return decoded content without secrets, and their kinds; nothing if unreadable."""
    try:
        # An answer may have been cut within a letter.
        text = getincrementaldecoder("utf-8")().decode(decoded(content, encoding))
        unnamed = _without_named(text)
        found, kinds = redacted_stream(unnamed)
        return found.encode(), kinds if unnamed is text else (KIND, *kinds)
    except (ValueError, MemoryError, RecursionError):
        return b"", ("unreadable",)


def _without_named(text: str) -> str:
    """Return a request's body without what its fields' names call secret; any other text as it is."""
    try:
        body = json.loads(text) if text.lstrip()[:1] == "{" else None
    except ValueError:
        return text
    said = {format.messages for format in FORMATS.values()}
    # Some APIs' requests are one field of the body.
    if not (isinstance(body, dict) and any(said & each.keys() for each in _objects(body))):
        return text
    found = _parameters(body, said)
    return text if found == body else json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def _objects(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [body, *(each for each in body.values() if isinstance(each, dict))]


def _parameters(value: Any, said: set[str]) -> Any:
    """Return parameters without secrets; messages, whose keys are in `said`, and schemas stay."""
    match value:
        case dict():
            return {name: _parameter(name, each, said) for name, each in value.items()}
        case list():
            return [_parameters(each, said) for each in value]
        case str() if "://" in value and "?" in value:
            return _without_query(value)
        case _:
            return value


def _parameter(name: str, value: Any, said: set[str]) -> Any:
    if name in said:
        return value
    if name in _SCHEMAS and isinstance(value, dict):
        return {parameter: _parameters(each, said) for parameter, each in value.items()}
    if name.lower().endswith("headers") and isinstance(value, dict):
        safe = {each for each in value if each.lower().encode(errors="replace") in REQUEST_NAMES}
        return {each: given if each in safe else _hidden(given) for each, given in value.items()}
    return _hidden(value) if _is_secret(name) else _parameters(value, said)


def _is_secret(name: str) -> bool:
    return SECRET_IN_NAME.search(_HARMLESS.sub("", name).encode(errors="replace")) is not None


def _hidden(value: Any) -> Any:
    """Return a value without its texts: numbers, such as `max_tokens`, are no secrets."""
    match value:
        case dict():
            return {name: _hidden(each) for name, each in value.items()}
        case list():
            return [_hidden(each) for each in value]
        case _:
            return REDACTED if isinstance(value, str) and value else value


def _without_query(text: str) -> str:
    """Return a text that is a URL without secrets in its query."""
    try:
        url = urlsplit(text)
        pairs = parse_qsl(url.query, keep_blank_values=True)
    except ValueError:
        return text
    kept = [(name, REDACTED if _is_secret(name) else given) for name, given in pairs]
    return text if kept == pairs else url._replace(query=urlencode(kept)).geturl()
