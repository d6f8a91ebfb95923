"""The agents of a conversation, from the ids in its messages, and those whom each message is for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stenolog.importers import Record, as_dict

from .message_format import agent_of, is_native
from .schema import MAIN, Message, read


class Speakers:
    """Agents that speak in CrewAgent's own messages; `agents` begins with the one that has no id."""

    def __init__(self, records: Sequence[Record]) -> None:
        told = [(record.line, read(as_dict(record.value))[0]) for record in records]
        self._told = {line: plain for line, plain in told if not is_native(plain)}
        named = dict.fromkeys(filter(None, map(agent_of, self._told.values())))
        is_unnamed = any(_speaks(plain) and not agent_of(plain) for plain in self._told.values())
        self.agents = [*([MAIN] if is_unnamed or not named else []), *named]
        self._for = dict(self._whom()) if len(self.agents) > 1 else {}

    def named_by(self, line: str) -> tuple[str, ...]:
        """Return the agent of a message, if it names one."""
        agent = agent_of(self._told.get(line, {}))
        return (agent,) if agent else ()

    def addressees(self, line: str) -> tuple[str, ...]:
        """Return whom a message is for; nobody by name in a conversation with a single agent."""
        return self._for.get(line, ())

    def _whom(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield a person's messages, each with the agent that it names, or that answers, or spoke last."""
        waiting: list[str] = []
        active = self.agents[0]
        for line, plain in self._told.items():
            if plain.get("role") == "user":
                waiting.append(line)
            named = agent_of(plain)
            if not (named or _speaks(plain)):
                continue
            active = named or MAIN
            yield from ((each, (active,)) for each in waiting)
            waiting.clear()
        yield from ((each, (active,)) for each in waiting)


def _speaks(plain: Message) -> bool:
    return plain.get("role") == "assistant"
