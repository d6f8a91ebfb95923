"""What answers requests: providers' models through their own SDKs, programs, scripts.

No SDK is imported before a model of it is made.
"""

from .adapters.agents.acp import ACP
from .adapters.agents.command_line import CommandLine, Health
from .adapters.agents.formats import JsonLines
from .adapters.agents.permission import Asked
from .adapters.agents.turn import Turn
from .adapters.llms.anthropic import Anthropic
from .adapters.llms.gemini import Gemini
from .adapters.llms.named import model_of
from .adapters.llms.openai_chat import OpenAIChat
from .adapters.llms.openai_responses import OpenAIResponses
from .adapters.llms.port import Answer, Model, Progress, Prompt, Said, Timeouts
from .adapters.llms.scripted import Scripted

__all__ = [
    "ACP",
    "Answer",
    "Anthropic",
    "Asked",
    "CommandLine",
    "Gemini",
    "Health",
    "JsonLines",
    "Model",
    "OpenAIChat",
    "OpenAIResponses",
    "Progress",
    "Prompt",
    "Said",
    "Scripted",
    "Timeouts",
    "Turn",
    "model_of",
]
