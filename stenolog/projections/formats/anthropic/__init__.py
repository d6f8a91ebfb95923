"""Anthropic's Messages API."""

from __future__ import annotations

from stenolog.domain.base.registry import Reference

from ..base import Format
from ..endpoint import Endpoint, Provider, Sdk
from ..model_families import takes_schemas
from .laws import LAWS
from .parameters import pictures_and_bytes
from .write import NAME, VERSION, AnthropicWriter

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
    read=Reference(f"{__name__}.read", "READER"),
    stream=Reference(f"{__name__}.stream", "AnthropicStream").new_value,
    cache=Reference(f"{__name__}.cache", "CACHE"),
    endpoint=ENDPOINT,
    billed=140,
    takes_schema=lambda model, has_tools: takes_schemas(model),
    output_limits=("max_tokens",),
)
