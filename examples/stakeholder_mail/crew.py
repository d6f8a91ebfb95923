"""The agents: an orchestrator, a planner, and as many writers and reviewers at once as mails."""

from __future__ import annotations

import json
from typing import Any

from stenolog import Agent, AssistantMessage, Team
from stenolog.context import Budget, LastN, Pins
from stenolog.engine import AutoSummary, ByAddress
from stenolog.models import Model

STAYS = Pins(authors=["system"], tags=["report", "analysis"]) | Budget(tokens=30_000)
"""Whatever is cut: the rules, the report and its analysis stay, and so does the task at hand."""


def _object(**properties: Any) -> dict[str, Any]:
    needed = {"required": list(properties), "additionalProperties": False}
    return {"type": "object", "properties": properties, **needed}


TEXT = {"type": "string"}
PLAN = {"name": "plan", "schema": _object(mails={"type": "array", "items": _object(to=TEXT, about=TEXT)})}
"""The form of the planner's answer."""
SCORE = {
    "name": "score",
    "schema": _object(score={"type": "number"}, lacks={"type": "array", "items": TEXT}, advice=TEXT),
}
"""The form of the reviewer's answer."""
ORCHESTRATOR = """\
You run a mailing. When a report comes in, answer in this form: a line 'Company: ' with what the company is, \
a line 'In short: ' with the report's most important sentence, a line 'Stakeholders:', and then a line \
'- NAME, ROLE: TOPIC, TOPIC' for each person whom the report names. When the mails are written, say in a \
sentence how they came out. Answer questions about them."""
PLANNER = """\
The user selects stakeholders. Plan one mail for each of them: to whom (name and role), about which topics."""
WRITER = """\
You write the one mail that you are asked for: a greeting, what matters to its reader in the light of the \
orchestrator's analysis, a close. When a reviewer lacks something, you write the whole mail again."""
REVIEWER = """\
You score a mail from 0 to 1 by the report and the orchestrator's analysis: does it greet its reader \
(greeting), speak of each topic of the plan (topics), give a figure of the report (figure), say what the \
company is (company)? List what it lacks, and quote for the writer what the analysis says of it."""


def agents(model: Model, *, context: bool = True) -> list[Agent]:
    """Return the four agents. Without `context`, a writer is shown its brief alone."""
    return [
        Agent(
            "orchestrator",
            llm=model,
            persona=ORCHESTRATOR,
            policy=STAYS,
            summary=AutoSummary(by=Agent("summariser", llm=model, policy=STAYS)),
            tags=analysis,  # its later answers may go
        ),
        Agent("task_planner", llm=model, persona=PLANNER, policy=STAYS, parameters={"output": PLAN}),
        Agent("email_writer", llm=model, persona=WRITER, policy=STAYS if context else LastN(1)),
        Agent(
            "reviewer",
            llm=model,
            persona=REVIEWER,
            policy=STAYS,
            parameters={"output": SCORE},
            metadata=quality,
        ),
    ]


def team(of: list[Agent]) -> Team:
    """Return the agents as a team; what names nobody is for the orchestrator."""
    return Team(of, turns=ByAddress(default=["orchestrator"]))


def analysis(answer: AssistantMessage) -> list[str]:
    """Return the tag by which the answer with the stakeholders stays."""
    return ["analysis"] if "Stakeholders:" in answer.text else []


def quality(review: AssistantMessage) -> dict[str, Any]:
    """Return the score that a reviewer gives, which is kept in `meta`; empty where its answer is none."""
    try:
        given = json.loads(review.text)
        score = min(max(float(given["score"]), 0.0), 1.0)
        lacks = ", ".join(map(str, given["lacks"]))
        return {"quality": {"score": score, "lacks": lacks, "advice": str(given["advice"])}}
    except (KeyError, TypeError, ValueError):
        return {}
