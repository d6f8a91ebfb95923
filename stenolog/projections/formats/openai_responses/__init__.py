"""OpenAI's Responses API."""

from __future__ import annotations

from stenolog.domain.base.registry import Reference

from ..base import Format
from ..endpoint import Endpoint, Sdk
from ..openai_chat import OPENAI
from ..openai_chat.write import too_many_tools
from .laws import LAWS
from .write import NAME, VERSION, ResponsesWriter

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
    read=Reference(f"{__name__}.read", "READER"),
    stream=Reference(f"{__name__}.stream", "OpenAIResponsesStream").new_value,
    cache=Reference(f"{__name__}.cache", "CACHE"),
    endpoint=ENDPOINT,
    takes_schema=lambda model, has_tools: True,
    output_limits=("max_output_tokens",),
)
