"""Models that answer requests: providers' models through their own SDKs, programs, scripts.

No SDK is imported before a model of it is made. `answer_from`, `recording` and `error_from` are for programs
that call an SDK themselves: they make an event of what it returns, streams or raises; `calling` appends it.
"""

from .adapters.agents.acp import ACP
from .adapters.agents.answer_buffer import PermissionRequest, ResponseBuilder
from .adapters.agents.command_line import CommandLine, HealthCheck
from .adapters.agents.output_formats import OUTPUT_FORMATS, JsonLines
from .adapters.engine.calling import CallRecorder, calling, recover
from .adapters.models.anthropic import Anthropic
from .adapters.models.base import (
    MODELS,
    Model,
    ModelRequest,
    Progress,
    StreamItem,
    Timeouts,
)
from .adapters.models.by_hand import Recording, answer_from, error_from, recording
from .adapters.models.egress import unchanged
from .adapters.models.gemini import Gemini
from .adapters.models.http_model import Clients, HttpModel, SdkModel, Sending
from .adapters.models.model_names import model_from_string
from .adapters.models.openai import OpenAIChat, OpenAIResponses
from .adapters.models.scripted import Scripted
from .adapters.providers.errors import provider_error
from .domain.errors import ModelError
from .projections.formats.deltas import ModelResponse, ResponseDelta
from .projections.formats.streaming import PartAccumulator, StreamReader
from .projections.requests.transport import Outgoing, Transport

__all__ = [
    "ACP",
    "MODELS",
    "OUTPUT_FORMATS",
    "Anthropic",
    "CallRecorder",
    "Clients",
    "CommandLine",
    "Gemini",
    "HealthCheck",
    "HttpModel",
    "JsonLines",
    "Model",
    "ModelError",
    "ModelRequest",
    "ModelResponse",
    "OpenAIChat",
    "OpenAIResponses",
    "Outgoing",
    "PartAccumulator",
    "PermissionRequest",
    "Progress",
    "Recording",
    "ResponseBuilder",
    "ResponseDelta",
    "Scripted",
    "SdkModel",
    "Sending",
    "StreamItem",
    "StreamReader",
    "Timeouts",
    "Transport",
    "answer_from",
    "calling",
    "error_from",
    "model_from_string",
    "provider_error",
    "recording",
    "recover",
    "unchanged",
]
