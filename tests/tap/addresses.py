"""Addresses of the four APIs."""

from __future__ import annotations


def dialect_of(target: str) -> tuple[str, bool]:
    """Return the API of a request and whether it only counts; an empty one: no API has this address."""
    path = target.partition("?")[0]
    endings: dict[str, tuple[str, bool]] = {
        "/messages": ("messages", False),
        "/messages/count_tokens": ("messages", True),
        "/chat/completions": ("chat", False),
        "/responses": ("responses", False),
        "/responses/compact": ("responses", True),
        "/embeddings": ("embeddings", True),
        ":generateContent": ("gemini", False),
        ":streamGenerateContent": ("gemini", False),
        ":countTokens": ("gemini", True),
    }
    return next((found for ending, found in endings.items() if path.endswith(ending)), ("", False))


def model_of(target: str) -> str:
    """Return the model in an address of Gemini's."""
    return target.partition("?")[0].rpartition("/")[2].partition(":")[0]
