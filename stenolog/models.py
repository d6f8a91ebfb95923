"""What answers requests: providers' models through their own SDKs, programs, scripts.

No SDK is imported before a model of it is made.
"""

from .adapters.agents.acp import ACP
from .adapters.agents.command_line import CommandLine, HealthCheck
from .adapters.agents.formats import JsonLines
from .adapters.agents.permission import PermissionRequest
from .adapters.agents.turn import ResponseBuilder
from .adapters.llms.anthropic import Anthropic
from .adapters.llms.gemini import Gemini
from .adapters.llms.named import model_from_string
from .adapters.llms.openai_chat import OpenAIChat
from .adapters.llms.openai_responses import OpenAIResponses
from .adapters.llms.port import Model, ModelCall, ModelResponse, Progress, ResponseDelta, Timeouts
from .adapters.llms.scripted import Scripted

__all__ = [
    "ACP",
    "Anthropic",
    "CommandLine",
    "Gemini",
    "HealthCheck",
    "JsonLines",
    "Model",
    "ModelCall",
    "ModelResponse",
    "OpenAIChat",
    "OpenAIResponses",
    "PermissionRequest",
    "Progress",
    "ResponseBuilder",
    "ResponseDelta",
    "Scripted",
    "Timeouts",
    "model_from_string",
]
