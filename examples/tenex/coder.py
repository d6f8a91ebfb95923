"""The executor: a command-line agent that keeps a session in memory, and so is told only what is new.

A prompt and an answer each end with the line `<<<end>>>`. What page it works on, it was told once.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

END = "<<<end>>>"
ANSWERS = (
    ("Build", "Built: {page} shows the hours."),
    ("heading", "Mended: {page} has its heading."),
    ("dark", "{page} is dark now."),
    ("work on", "I work on {page}."),
)


def main() -> None:
    """Answer one prompt after the other, until nobody asks any more."""
    session = ""
    for prompt in prompts():
        session += prompt
        for word in re.findall(r"\S+\s*", answer(session, prompt)):
            print(word, end="", flush=True)
            time.sleep(0.02)
        print(f"\n{END}", flush=True)


def prompts() -> Iterator[str]:
    """Yield the agent's prompts."""
    prompt = ""
    for line in sys.stdin:
        if line.rstrip() == END:
            yield prompt
            prompt = ""
        else:
            prompt += line


def answer(session: str, prompt: str) -> str:
    """Return the answer to what it was asked last, with what it remembers of the session."""
    page = re.search(r"\w+\.html", session)
    _, reply = max(ANSWERS, key=lambda known: prompt.rfind(known[0]))
    return reply.format(page=page[0] if page else "no page yet")


if __name__ == "__main__":
    with suppress(BrokenPipeError, KeyboardInterrupt):
        main()
