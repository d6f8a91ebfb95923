"""Parts of a message: a text, a picture, a file, a tool call or a provider's own."""

from .domain.parts import (
    AssistantPart,
    FilePart,
    ImagePart,
    Part,
    ProviderPart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCall,
    UserPart,
    says_something,
)
from .projections.views.lines import in_words

__all__ = [
    "AssistantPart",
    "FilePart",
    "ImagePart",
    "Part",
    "ProviderPart",
    "ReasoningPart",
    "RefusalPart",
    "TextPart",
    "ToolCall",
    "UserPart",
    "in_words",
    "says_something",
]
