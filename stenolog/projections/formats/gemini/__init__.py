"""Gemini's `generateContent`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base import Format
from ..endpoint import Endpoint, Provider, Sdk
from .laws import LAWS
from .write import NAME, VERSION, GeminiWriter

if TYPE_CHECKING:
    from ..caching import CacheRules
    from ..reading import MessageReader
    from ..streaming import StreamReader


def _reader() -> MessageReader:
    from .read import READER  # late: most programs read messages of nobody else

    return READER


def _stream() -> StreamReader:
    from .stream import GeminiStream  # late, too

    return GeminiStream()


def _cache() -> CacheRules:
    from .cache import CACHE  # late, too

    return CACHE


ENDPOINT = Endpoint(
    Provider(
        names=("gemini", "google"),
        base="https://generativelanguage.googleapis.com",
        base_variables=("GOOGLE_GEMINI_BASE_URL", "GEMINI_BASE_URL"),
        key_variable="GEMINI_API_KEY",
        key_header="x-goog-api-key: ",
        ways_in=("GEMINI_", "GOOGLE_"),
        models=("*gemini-*",),
        spelled=(r"gemini-[\w.-]*\w",),
        telemetry="gcp.gemini",
    ),
    "models/{model}:generateContent",
    Sdk(
        "from google import genai",
        "genai.Client()",
        "models.generate_content",
        settings="generationConfig",
        package="google-genai",
        extra="gemini",
    ),
    prefix="/v1beta/",
    remove=("model",),
    paths=(("/models/[^/]+:countTokens", "count-tokens"), ("/models/[^/]+:(stream)?[gG]enerateContent", "")),
)
FORMAT = Format(
    NAME,
    VERSION,
    writer=GeminiWriter,
    messages="contents",
    laws=LAWS,
    read=_reader,
    stream=_stream,
    cache=_cache,
    endpoint=ENDPOINT,
)
