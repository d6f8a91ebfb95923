"""Cohere's Chat API, version 2."""

from __future__ import annotations

from stenolog.domain.base.registry import Reference

from ..base import Format
from ..endpoint import Endpoint, Provider, Sdk
from .laws import LAWS
from .write import NAME, VERSION, CohereWriter

FIELDS = (
    *("model", "messages", "tools", "strict_tools", "documents", "citation_options", "response_format"),
    *("safety_mode", "max_tokens", "stop_sequences", "temperature", "seed", "frequency_penalty"),
    *("presence_penalty", "k", "p", "logprobs", "tool_choice", "thinking", "priority"),
)
"""The arguments of the SDK's `chat`."""
ENDPOINT = Endpoint(
    Provider(
        names=(NAME,),
        base="https://api.cohere.com",
        base_variables=("CO_API_URL",),
        key_variable="CO_API_KEY",
        key_header="authorization: Bearer ",
        ways_in=("CO_API_", "COHERE_"),
        models=("command-*", "c4ai-*"),
    ),
    "/v2/chat",
    Sdk(
        "import cohere",
        "cohere.ClientV2()",
        "chat",
        FIELDS,
        package="cohere",
        extra="cohere",
        stream_call="chat_stream",
        options="request_options",
        extra_body="additional_body_parameters",
        extra_headers="additional_headers",
    ),
)
FORMAT = Format(
    NAME,
    VERSION,
    writer=CohereWriter,
    laws=LAWS,
    read=Reference(f"{__name__}.read", "READER"),
    stream=Reference(f"{__name__}.stream", "CohereStream").new_value,
    endpoint=ENDPOINT,
    takes_schema=lambda model, has_tools: not has_tools,
    output_limits=("max_tokens",),
)
