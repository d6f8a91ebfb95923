"""OpenAI's Chat Completions API, which many others speak."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base import Format
from ..endpoint import Endpoint, Provider, Sdk
from .laws import LAWS
from .write import NAME, VERSION, ChatWriter, too_many_tools

if TYPE_CHECKING:
    from ..caching import CacheRules
    from ..reading import MessageReader
    from ..streaming import StreamReader


def _reader() -> MessageReader:
    from .read import READER  # late: most programs read messages of nobody else

    return READER


def _stream() -> StreamReader:
    from .stream import OpenAIChatStream  # late, too

    return OpenAIChatStream()


def _cache() -> CacheRules:
    from .cache import CACHE  # late, too

    return CACHE


OPENAI = Provider(
    names=("openai",),
    base="https://api.openai.com/v1",
    base_variables=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    key_variable="OPENAI_API_KEY",
    key_header="authorization: Bearer ",
    ways_in=("OPENAI_",),
    spelled=(r"(?:gpt|o[134])-[\w.-]*\w",),
)
"""The provider of two APIs."""
ENDPOINT = Endpoint(
    OPENAI,
    "/chat/completions",
    Sdk(
        "from openai import OpenAI",
        "OpenAI()",
        "chat.completions.create",
        ("model", "messages", "tools"),
        package="openai",
        extra="openai",
    ),
)
FORMAT = Format(
    NAME,
    VERSION,
    writer=ChatWriter,
    limits=too_many_tools,
    laws=LAWS,
    read=_reader,
    stream=_stream,
    cache=_cache,
    endpoint=ENDPOINT,
)
