"""Formats: all that is known of each provider's API, a package each, and their registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from stenolog.domain.base.registry import LateRegistry, Reference
from stenolog.domain.errors import CallerError
from stenolog.projections.messages.message import Body

from .base import Format
from .checks import IncrementalValidator, Violation
from .endpoint import Provider

if TYPE_CHECKING:
    from .reading import MessageReader
    from .streaming import StreamReader


CLIENTS = {
    "openai_chat": "openai:OpenAIChat",
    "openai_responses": "openai:OpenAIResponses",
    "cohere": "cohere:Cohere",
    "anthropic": "anthropic:Anthropic",
    "gemini": "gemini:Gemini",
    "plain": "",
}
"""The rooms of all APIs, each with its client in `adapters/models`; a program takes plain text."""
FORMATS: LateRegistry[Format] = LateRegistry("an API")
"""Every format by its name, those that ship with stenolog and those of plugins: see `register_api`."""
# By reference: a request needs one of them.
for _room in CLIENTS:
    FORMATS.add_late(_room.replace("_", "-"), Reference(f"{__name__}.{_room}", "FORMAT"))
DEFAULT_API = next(iter(FORMATS))
"""The API of a request that names none, which most servers speak."""


def register_api(format: Format) -> Format:
    """Register a format by its name, at the start of a program.

    Raises `CallerError` if another format has the name.
    """
    return FORMATS.add(format.name, format)


def format_of(api: str | Format) -> Format:
    """Return a format. Raises `NotRegisteredError` for an unknown one."""
    return api if isinstance(api, Format) else FORMATS[api]


def reader_of(api: str) -> MessageReader:
    """Return a format's reader. Raises `CallerError` if it has none."""
    if (load := FORMATS[api].read) is None:
        raise CallerError(f"the format {api}: expected a reader, Format(…, read=…), found none")
    return load()


def providers() -> Iterator[tuple[str, Provider]]:
    """Yield the formats' providers with their API, the usual one first."""
    return ((name, format.endpoint.provider) for name, format in FORMATS.items() if format.endpoint)


def api_by(provider: str, model: str = "") -> str:
    """Return the API of a provider by its name on a card, else by its model's; "" if unknown.

    Only providers of known models count: many servers speak others' formats.
    """
    # One after another, since each is loaded when it is looked at.
    named = (api for api, each in providers() if each.models and provider in each.names)
    asked = (api for api, each in providers() if any(fnmatchcase(model, pattern) for pattern in each.models))
    return (provider and next(named, "")) or (model and next(asked, ""))


def stream_of(api: str) -> StreamReader:
    """Return a new reader of a format's answer. Raises `CallerError` if it has none."""
    if (made := FORMATS[api].stream) is None:
        raise CallerError(f"the format {api}: expected a reader of answers, Format(…, stream=…), found none")
    return made()


def reader_for(messages: Sequence[Mapping[str, object]]) -> MessageReader:
    """Return the reader of the messages' format; by default that of the default API."""
    readers = (format.read() for format in FORMATS.values() if format.read is not None)
    return next((reader for reader in readers if reader.holds(messages)), reader_of(DEFAULT_API))


def validate(api: str, body: Body) -> list[Violation]:
    """Return every place where a body breaks a law of its format (with or without version).

    The laws judge bodies of our own making: what a law cannot read breaks it. Raises `NotRegisteredError` for
    an unknown API.
    """
    return validator_of(api).violations(body)


def validator_of(api: str) -> IncrementalValidator:
    """Return a validator for consecutive bodies; it reads unchanged messages once."""
    format = FORMATS[api.partition("@")[0]]
    return IncrementalValidator(format.laws, format.messages)
