"""Gemini's `generateContent`."""

from __future__ import annotations

from stenolog.domain.base.registry import Reference

from ..base import Format
from ..endpoint import Endpoint, Provider, Sdk
from .laws import LAWS
from .write import NAME, VERSION, GeminiWriter, takes_schema

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
    read=Reference(f"{__name__}.read", "READER"),
    stream=Reference(f"{__name__}.stream", "GeminiStream").new_value,
    cache=Reference(f"{__name__}.cache", "CACHE"),
    endpoint=ENDPOINT,
    takes_schema=takes_schema,
    output_limits=("generationConfig/maxOutputTokens",),
)
