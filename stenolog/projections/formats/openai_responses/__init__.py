"""OpenAI's Responses API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base import Format
from ..endpoint import Endpoint, Sdk
from ..openai_chat import OPENAI
from ..openai_chat.write import too_many_tools
from .laws import LAWS
from .write import NAME, VERSION, ResponsesWriter

if TYPE_CHECKING:
    from ..caching import CacheRules
    from ..reading import MessageReader
    from ..streaming import StreamReader


def _reader() -> MessageReader:
    from .read import READER  # late: most programs read messages of nobody else

    return READER


def _stream() -> StreamReader:
    from .stream import OpenAIResponsesStream  # late, too

    return OpenAIResponsesStream()


def _cache() -> CacheRules:
    from .cache import CACHE  # late, too

    return CACHE


ENDPOINT = Endpoint(
    OPENAI,
    "/responses",
    Sdk(
        "from openai import OpenAI",
        "OpenAI()",
        "responses.create",
        ("model", "input", "instructions", "tools"),
        package="openai",
        extra="openai",
    ),
    paths=(("/responses/compact", "compaction"), ("/responses(/input_tokens)?", "")),
)
FORMAT = Format(
    NAME,
    VERSION,
    writer=ResponsesWriter,
    messages="input",
    limits=too_many_tools,
    laws=LAWS,
    read=_reader,
    stream=_stream,
    cache=_cache,
    endpoint=ENDPOINT,
)
