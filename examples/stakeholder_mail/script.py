"""The models' answers where there is no key: a function of what is sent, so that a kill changes nothing."""

from __future__ import annotations

import json
import re

from stenolog.models import Model, ModelRequest, Scripted

from ..pace import PAUSE_SECONDS
from .workflow import DONE, INPUTS, Inputs


def scripted() -> Model:
    """Return a model that answers for all three agents."""
    return Scripted(reply, name="scripted", endless=True, piece=12, pause=PAUSE_SECONDS)


def reply(prompt: ModelRequest) -> str:
    """Return the answer to a request."""
    said = [str(message.get("content") or "") for message in prompt.body["messages"]]
    match prompt.lane.partition("/")[0]:
        case "planner":
            return json.dumps({"mails": _plans(INPUTS)})
        case "writer":
            brief = next(text for text in reversed(said) if "Write to" in text)
            return _mail(brief, said[-1])
        case _:
            return _directs(said)


def _directs(said: list[str]) -> str:
    """Return the orchestrator's words: to the report, at the end, and to a question."""
    if DONE in said[-1]:
        return "All eight mails are written. Each gives the figures that its reader asks about."
    if "?" in said[-1]:
        return f"{_about_outages(said)} mails speak of the outages, for their readers were hit by them."
    return "Growth is good, and two outages need an honest word. @planner, one mail for each, please."


def _plans(inputs: Inputs) -> list[dict[str, str]]:
    return [{"to": f"{who.name}, {who.role}", "about": ", ".join(who.cares)} for who in inputs.stakeholders]


def _mail(brief: str, wish: str) -> str:
    """Return a mail of the report's sentences that the brief asks for, or of one if it is to be short."""
    found = re.search(r"Write to (\w+).*about (.+)\.", brief)
    assert found is not None, "the planner has said so"
    words = found[2].split(", ")
    told = re.split(r"(?<=\.) ", INPUTS.report)
    lines = [line for line in told if any(word in line for word in words)] or told[:1]
    if "horter" in wish:
        return f"Dear {found[1]},\n\n{lines[0]}\n\nYours, Acme"
    close = "Thank you for standing by us.\n\n" if "arm" in wish else ""
    return (
        f"Dear {found[1]},\n\nHere is what October brought that concerns you. {' '.join(lines)}\n\n"
        f"{close}If anything is unclear, write back: a person will answer.\n\nYours, Acme"
    )


def _about_outages(said: list[str]) -> int:
    return sum("outages" in text and "Dear " in text for text in said)
