"""The log, told: each entry in a line or two, and for each request what it began with and what it cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from shutil import get_terminal_size
from textwrap import fill

from stenolog import (
    AssistantMessage,
    Conversation,
    Entry,
    LlmError,
    ModeSwitch,
    Request,
    ToolResult,
    UserMessage,
)
from stenolog.events import Receipt, WorkflowRun

ALWAYS = ("base-rules", "tool-policy")
"""What every request begins with."""


class Story:
    """Tells of entries on the terminal; `told` says whether there was anything to tell."""

    def __init__(self, conversation: Conversation) -> None:
        self.told = False
        self._talk = conversation
        self._around: list[str] = []

    def tell(self, entries: Iterable[Entry]) -> None:
        """Tell of some entries, in lines that are broken between words."""
        width = get_terminal_size().columns
        for line in (line for entry in entries for line in self._lines(entry)):
            self.told = True
            print(
                fill(line, width, subsequent_indent=6 * " ", break_long_words=False, break_on_hyphens=False),
                flush=True,
            )

    def _lines(self, entry: Entry) -> Iterator[str]:
        match entry.event:
            case ModeSwitch(mode=str(mode), active_run=run):
                where = f", {run.id}, node {run.node}" if isinstance(run, WorkflowRun) else ""
                yield from ("", f"── {mode} mode{where}")
            case UserMessage(text=text, author=author, control=None):
                yield f"{author or 'user'}: {text}"
            case AssistantMessage(text=text, receipt=receipt) as said:
                yield from self._request(receipt)
                yield from (f"crew: {line}" for line in text.splitlines())
                yield from (f"crew calls {call.name} {_short(call.arguments)}" for call in said.tool_calls)
            case LlmError(category=category, message=message, text=text, receipt=receipt):
                yield from self._request(receipt)
                yield f"crew: {text.rstrip()} ✂ {category}: {message}"
            case ToolResult(name=name, blob=blob) as result:
                kept = f", kept whole as {_alias(entry)}" if blob else ""
                size = f"{_size(self._talk, entry):,} characters"
                yield f"  {name} gives {size}{kept}: {_short(result.text)}"
            case _:
                pass

    def _request(self, receipt: Receipt | None) -> Iterator[str]:
        """Yield an answer's request, built again: its size, the changes around it, and its cut."""
        if receipt is None:
            return
        request = self._talk.request("crew", receipt.view, api="openai-chat")
        yield f"  … sent {request.size.messages} messages, {request.size.tokens} tokens"
        around, self._around = self._around, [*_around(request)]
        yield from (f"    {line}" for line in self._around if self._around != around)
        for part in request.parts:
            if part.rule == "compact":
                whole = _size(self._talk, next(self._talk.entries(part.positions[0] - 1)))
                yield f"  … of {whole:,} characters of output it was shown {part.tokens_out} tokens"
        for run in request.omissions:
            if run.rule == "over-budget":
                yield f"  … without {run.first} to {run.last}, {run.tokens} tokens: {run.rule}"


def _around(request: Request) -> Iterator[str]:
    """Yield the words that stand before and behind the conversation in this mode, each with its rule."""
    begins = min(part.message for part in request.parts if part.role != "system" and part.message >= 0)
    for message, said in enumerate(request.body["messages"]):
        rules = [part.rule for part in request.parts if part.message == message and part.role == "system"]
        for rule, words in zip(rules, said["content"].split("\n\n") if rules else (), strict=True):
            if rule not in ALWAYS:
                yield f"{'before' if message < begins else 'behind'} the history: {words} ({rule})"


def _alias(entry: Entry) -> str:
    return f"@state/logs/tool-results/{entry.id}.json"


def _size(conversation: Conversation, entry: Entry) -> int:
    return len(conversation.outputs[_alias(entry)])


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 70 else f"{line[:70]} …"
