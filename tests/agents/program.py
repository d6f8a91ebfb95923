"""A small agent for the tests: `program.py text`, `jsonl`, or once with one of the names below.

The one that runs on answers with all it was ever told, so that one can see its history; with `BRIEF` in its
environment, only with what users said. The last word of a prompt may be a command to it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

END = "<<<end>>>"


def say(text: str) -> None:
    """Say it now."""
    sys.stdout.write(text)
    sys.stdout.flush()


def line(**told: Any) -> None:
    """Say a line of JSON."""
    say(json.dumps(told) + "\n")


class Text:
    """Plain text up to a line that is the end."""

    end = staticmethod(lambda: say(f"\n{END}\n"))
    more = staticmethod(say)

    @staticmethod
    def prompts() -> Iterator[str]:
        rows: list[str] = []
        for row in map(str.rstrip, sys.stdin):
            if row == END:
                yield "\n".join(rows)
                rows = []
            else:
                rows.append(row)


class Lines:
    """JSON lines."""

    end = staticmethod(
        lambda: line(type="result", session=os.environ.get("SESSION", ""), usage={"output": 3})
    )
    more = staticmethod(lambda text: line(type="text", text=text))

    @staticmethod
    def prompts() -> Iterator[str]:
        for row in sys.stdin:
            yield json.loads(row)["prompt"]


def runs_on(form: type[Text] | type[Lines]) -> None:
    """Answer one prompt after the other."""
    signal.signal(signal.SIGINT, interrupted)
    heard: list[str] = []
    for prompt in form.prompts():
        heard.append(prompt)
        try:
            answer(form, prompt, heard)
        except InterruptedError:
            form.more("(stopped)")
        form.end()
        if prompt.endswith("stray"):
            say("nobody asked\n")


def answer(form: type[Text] | type[Lines], prompt: str, heard: list[str]) -> None:
    word = (prompt.split() or [""])[-1]
    match "die" if word == "die-later" and len(heard) > 1 else word:
        case "die":
            form.more("I was about to")
            sys.stderr.write("out of memory\n")
            sys.stderr.flush()
            os._exit(7)
        case "hang":
            form.more("begun")
            time.sleep(60)
        case "stubborn":
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            form.more("begun")
            time.sleep(60)
        case "mute":
            time.sleep(60)
        case "garbage":
            say('{"type": "text", "te\n')
            time.sleep(60)
        case "flood":
            sys.stderr.write("all is well\n" * 500_000)
            form.more("flooded")
        case "deaf":
            os.close(0)
            form.more("heard for the last time")
        case _ if os.environ.get("PASSES") and len(heard) > 1:
            form.more(".....")
        case _ if os.environ.get("BRIEF"):
            form.more(" ".join(re.findall(r"^User: (.*)", "\n".join(heard), re.MULTILINE)))
        case _:
            form.more(f"{len(heard)}: ")
            form.more(" | ".join(heard))


def interrupted(*_: object) -> None:
    raise InterruptedError


def echo() -> None:
    say(sys.stdin.read())


def argument() -> None:
    say(sys.argv[2])


def fail() -> None:
    say("some of it")
    sys.stderr.write("line\n" * 3 + f"the key {os.environ.get('SECRET_KEY', '')} is wrong\n")
    sys.exit(3)


def raw() -> None:
    sys.stdout.buffer.write(bytes.fromhex(sys.argv[2]))


def bit_by_bit() -> None:
    for byte in bytes.fromhex(sys.argv[2]):
        os.write(1, bytes([byte]))
        time.sleep(0.002)


def flood() -> None:
    sys.stderr.write("x" * 5_000_000)
    say("done")


def many() -> None:
    say("word " * int(sys.argv[2]))


def deaf() -> None:
    os.close(0)
    say("done")


def family() -> None:
    """Have a child that holds the output, say its id, and hang."""
    child = subprocess.Popen([sys.executable, "-IS", "-c", "import time; time.sleep(60)"])
    say(f"{child.pid}\n")
    time.sleep(60)


def orphan() -> None:
    """Leave a child behind that holds the output."""
    child = subprocess.Popen([sys.executable, "-IS", "-c", "import time; time.sleep(60)"])
    say(f"{child.pid}\n")


def script() -> None:
    """Say what stands in a file, then end with the code given."""
    with open(sys.argv[2]) as file:
        say(file.read())
    sys.exit(int(sys.argv[3]))


def large() -> None:
    line(type="text", text="x" * int(sys.argv[2]))
    line(type="result")


def sessions() -> None:
    """Say which arguments it got, and a session."""
    prompt = sys.stdin.read()
    line(type="session", id="s1")
    line(type="result", text=f"{prompt} {' '.join(sys.argv[2:])}")


ONCE: dict[str, Callable[[], None]] = {
    each.__name__: each
    for each in (
        echo, argument, fail, raw, bit_by_bit, flood, many, deaf, family, orphan, script, large, sessions,
    )
}  # fmt: skip

if __name__ == "__main__":
    match sys.argv[1]:
        case "text":
            runs_on(Text)
        case "jsonl":
            runs_on(Lines)
        case name:
            ONCE[name]()
