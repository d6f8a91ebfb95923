"""What answers requests: providers' models through their own SDKs, and others."""

from .adapters.llms.port import Answer, Model, Prompt, Said, Timeouts
from .adapters.llms.scripted import Scripted

__all__ = ["Answer", "Model", "Prompt", "Said", "Scripted", "Timeouts"]
