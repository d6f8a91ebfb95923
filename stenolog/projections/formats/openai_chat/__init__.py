"""OpenAI's Chat Completions API, which many others speak."""

from __future__ import annotations

from stenolog.domain.base.registry import Reference

from ..base import Format
from ..endpoint import Endpoint, Provider, Sdk
from .laws import LAWS
from .write import NAME, VERSION, ChatWriter, too_many_tools

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
    read=Reference(f"{__name__}.read", "READER"),
    stream=Reference(f"{__name__}.stream", "OpenAIChatStream").new_value,
    cache=Reference(f"{__name__}.cache", "CACHE"),
    endpoint=ENDPOINT,
    takes_schema=lambda model, has_tools: True,
    output_limits=("max_completion_tokens", "max_tokens"),
)
