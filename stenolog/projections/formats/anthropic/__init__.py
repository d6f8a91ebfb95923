"""Anthropic's Messages API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base import Format
from ..endpoint import Endpoint, Provider, Sdk
from .laws import LAWS
from .parameters import pictures_and_bytes
from .write import NAME, VERSION, AnthropicWriter

if TYPE_CHECKING:
    from ..caching import CacheRules
    from ..reading import MessageReader
    from ..streaming import StreamReader


def _reader() -> MessageReader:
    from .read import READER  # late: most programs read messages of nobody else

    return READER


def _stream() -> StreamReader:
    from .stream import AnthropicStream  # late, too

    return AnthropicStream()


def _cache() -> CacheRules:
    from .cache import CACHE  # late, too

    return CACHE


ENDPOINT = Endpoint(
    Provider(
        names=("anthropic",),
        base="https://api.anthropic.com",
        base_variables=("ANTHROPIC_BASE_URL",),
        key_variable="ANTHROPIC_API_KEY",
        key_header="x-api-key: ",
        ways_in=("ANTHROPIC_",),
        models=("*claude-*",),
        spelled=(r"claude-[\w.-]*\w", r"(?:Opus|Sonnet|Haiku|Fable|Claude) \d+(?:\.\d+)?"),
        maker="claude-",
        profile="~/.config/anthropic",
    ),
    "/v1/messages",
    Sdk(
        "from anthropic import Anthropic",
        "Anthropic()",
        "messages.create",
        ("model", "messages", "system", "tools", "max_tokens"),
        package="anthropic",
        extra="anthropic",
    ),
    headers=(("anthropic-version", "2023-06-01"),),
    paths=(("/messages/count_tokens", "count-tokens"), ("/messages", "")),
)
FORMAT = Format(
    NAME,
    VERSION,
    writer=AnthropicWriter,
    limits=pictures_and_bytes,
    laws=LAWS,
    read=_reader,
    stream=_stream,
    cache=_cache,
    endpoint=ENDPOINT,
)
