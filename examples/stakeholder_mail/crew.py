"""Who works: an orchestrator, a planner, and a writer, of which there are as many at once as mails."""

from __future__ import annotations

import re
from typing import Any

from stenolog import Agent, AssistantMessage, Team
from stenolog.context import Budget, Pins
from stenolog.engine import ByAddress
from stenolog.models import Model

STAYS = Pins(authors=["system"], tags=["company", "stakeholders"]) | Budget(tokens=8_000)
"""Whatever is cut: the rules, the company and the stakeholders stay, and so does the task at hand."""


def _object(**properties: Any) -> dict[str, Any]:
    needed = {"required": list(properties), "additionalProperties": False}
    return {"type": "object", "properties": properties, **needed}


MAIL = _object(to={"type": "string"}, about={"type": "string"})
PLAN = {"name": "plan", "schema": _object(mails={"type": "array", "items": MAIL})}
"""The form of the planner's answer."""
ORCHESTRATOR = (
    "You run the mailing. When a report comes in, say in a sentence what matters, and hand on to the planner "
    "by writing @planner. When the mails are written, say in two sentences how they came out."
)
PLANNER = "You plan one mail for each stakeholder: to whom, and about what in the report."
WRITER = (
    "You write the one mail that the planner asks you for: a greeting, what matters to the reader, a close."
)


def agents(model: Model) -> list[Agent]:
    """Return the three agents; one of them will be on many lanes."""
    return [
        Agent("orchestrator", llm=model, persona=ORCHESTRATOR, policy=STAYS),
        Agent("planner", llm=model, persona=PLANNER, policy=STAYS, parameters={"output": PLAN}),
        Agent("writer", llm=model, persona=WRITER, policy=STAYS, metadata=quality),
    ]


def team(of: list[Agent]) -> Team:
    """Return the agents as a team; what names nobody is for the orchestrator."""
    return Team(of, turns=ByAddress(default=["orchestrator"]))


def quality(mail: AssistantMessage) -> dict[str, Any]:
    """Return the score of a mail, which is kept with it: the share of checks that it passes.

    A reviewer of your own may be anything that is quick and pure; a model that reviews is another agent.
    """
    words = len(mail.text.split())
    checks = {
        "greeting": bool(re.match(r"(Dear|Hello) \w+", mail.text)),
        "figure": bool(re.search(r"\d", mail.text)),
        "length": 15 <= words <= 70,
        "signature": mail.text.rstrip().endswith("Acme"),
        "caution": "guarantee" not in mail.text,
    }
    return {"quality": {"score": sum(checks.values()) / len(checks), "words": words, **checks}}
