"""Cohere's Chat API, version 2."""

from __future__ import annotations

from stenolog.domain.registry import Reference

from ..base import Format
from ..endpoint import Endpoint, Provider, Sdk
from .laws import LAWS
from .write import NAME, VERSION, CohereWriter

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
    Sdk("import cohere", "cohere.ClientV2()", "chat", package="cohere", extra="cohere"),
)
FORMAT = Format(
    NAME,
    VERSION,
    writer=CohereWriter,
    laws=LAWS,
    read=Reference(f"{__name__}.read", "READER"),
    stream=Reference(f"{__name__}.stream", "CohereStream").new_value,
    endpoint=ENDPOINT,
)
