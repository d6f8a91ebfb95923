"""The model without a key: it answers from what it is sent alone, so it may be asked again after a crash."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NamedTuple

from stenolog import ToolCall
from stenolog.models import Model, ModelRequest, Scripted

from ..pace import PAUSE_SECONDS
from .project import PAGES


class Sent(NamedTuple):
    """The model's input: all its words, and the result of each call of its own by the call's id."""

    words: str
    results: dict[str, str]


def scripted() -> Model:
    """Return a model that plays every agent of this example."""
    return Scripted(_answer, endless=True, pause=PAUSE_SECONDS)


def _answer(prompt: ModelRequest) -> object:
    messages = prompt.body["messages"]
    results = {said["tool_call_id"]: said["content"] for said in messages if said["role"] == "tool"}
    words = "\n".join(str(said.get("content") or "") for said in messages)
    return PARTS[prompt.lane.partition("/")[0]](Sent(words, results))


def _call(id: str, name: str, **arguments: object) -> ToolCall:
    return ToolCall(id=id, name=name, arguments=json.dumps(arguments))


def _coder(sent: Sent) -> object:
    """Return the coder's answers: to "files", and then to "the first one", which needs the history."""
    if "files" not in sent.results:
        return ["I look.", _call("files", "ls")]
    first, *others = sent.results["files"].split(", ")
    if "first one" not in sent.words:
        return f"There are {1 + len(others)}: {', '.join([first, *others])}."
    if "first" not in sent.results:
        return ["You mean the first that I named.", _call("first", "read_file", path=first)]
    return f"{first} has {len(sent.results['first'])} characters."


def _stuck(sent: Sent) -> object:
    return _call(f"again-{len(sent.results)}", "ls")


def _walker(sent: Sent) -> object:
    return _call(f"page-{len(sent.results)}", "read_page", page=1 + len(sent.results))


def _lead(sent: Sent) -> object:
    if len(sent.results) < 2:
        read = _call("read", "ask_reader", task="Read loaves.py and say what it bakes.")
        return ["Two of us look.", read, _call("test", "ask_tester", task="Run the tests.")]
    return f"{sent.results['test']} {sent.results['read']} So range(1, trays) has to be range(trays)."


def _reader(sent: Sent) -> object:
    if "reading" not in sent.results:
        return _call("reading", "read_file", path="loaves.py")
    asked = "one tray too few" in sent.words  # said to its caller alone: it knows since its context is a fork
    return "loaves.py begins at tray 1" + (", hence one tray too few." if asked else ".")


def _tester(sent: Sent) -> object:
    if "testing" not in sent.results:
        return _call("testing", "run_tests")
    return f"One test fails: {sent.results['testing'].partition(': ')[2]}."


def _librarian(sent: Sent) -> object:
    known = _pages(sent)
    unread = [page for page in range(1, len(PAGES) + 1) if page not in known]
    if unread:
        return _call(f"p{unread[0]}", "read_page", page=unread[0])
    if "third page" not in sent.words:
        return f"I have read {len(known)} pages."
    return f"On the third page I read about {known[3]}."


def _summariser(sent: Sent) -> object:
    return "Pages read so far. " + " ".join(f"Page {page}: {word}." for page, word in _pages(sent).items())


def _pages(sent: Sent) -> dict[int, str]:
    """Return the pages whose words it has before it, be it in a result or in a summary."""
    return {int(page): word for page, word in re.findall(r"Page (\d+): (\w+)", sent.words)}


PARTS: dict[str, Callable[[Sent], object]] = {
    "coder": _coder,
    "stuck": _stuck,
    "walker": _walker,
    "lead": _lead,
    "reader": _reader,
    "tester": _tester,
    "librarian": _librarian,
    "summariser": _summariser,
}
