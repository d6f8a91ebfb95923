"""A command-line agent as small as can be: it runs on, and answers from what it is told in plain text.

    python3 role.py developer

A prompt and an answer each end with the line `<<<end>>>`. It looks at the last that somebody else has said.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

END, PASS = "<<<end>>>", "....."
NAMES = {"developer": "Software Developer", "reviewer": "Code Reviewer", "owner": "Product Owner"}
ANSWERS = {
    "developer": {
        "Build a login": "Plan: a table of users, a cookie with a session's id. Review it, please.",
        "After a day": "Then a session ends after 24 hours.",
        "No password": "They are stored hashed, and no log line holds one.",
        "lost password": "A link in a mail lets you choose another, once.",
        "did I ask": "I know of nothing: this is a new start for me.",
        "User": "That is beyond me: I am a program of some sixty lines.",
    },
    "reviewer": {
        "Plan:": "Good, but a session must end some time. After how long?",
        "A link in a mail": "And that link should be dead after an hour.",
    },
    "owner": {"After how long": "After a day: bakers get up early."},
}
FACTS = {
    "login": "A login for the bakery is built.",
    "ends after": "A session ends after a day.",
    "No password": "No password may stand in a log.",
    "in a mail": "A link in a mail replaces a lost password.",
}
"""What the scribe writes down, by the words that it reads, in what was said or in earlier notes."""
SPEAKER = re.compile(r"(?:^|\n\n)(?=(?:User|System|Assistant)(?: \([^\n]*\))?: )")


def main(role: str) -> None:
    """Answer one prompt after the other, until nobody asks any more."""
    for prompt in prompts():
        for word in re.findall(r"\S+\s*", answer(role, prompt)):
            print(word, end="", flush=True)
            time.sleep(0.02)
        print(f"\n{END}", flush=True)


def prompts() -> Iterator[str]:
    """Yield the agent's prompts."""
    lines: list[str] = []
    for line in sys.stdin:
        if line.rstrip() == END:
            yield "".join(lines).strip()
            lines = []
        else:
            lines.append(line)


def answer(role: str, prompt: str) -> str:
    """Return the answer to the last words of anybody else; a pass where it has none."""
    if prompt == "ping":
        return "pong"
    if role == "scribe":
        return " ".join(fact for words, fact in FACTS.items() if words in prompt) or "Nothing to note yet."
    mine = ("System: ", "User: [", f"Assistant ({NAMES[role]}): ")
    said = [text for text in SPEAKER.split(prompt) if text and not text.startswith(mine)]
    known = ANSWERS[role].items()
    return next((reply for words, reply in known if said and words in said[-1]), PASS)


if __name__ == "__main__":
    with suppress(BrokenPipeError, KeyboardInterrupt):
        main(sys.argv[1])
