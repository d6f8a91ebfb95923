"""The models' answers where there is no key: functions of what is sent, and of nothing else.

A message that is missing from a prompt changes the answer: without the report there is nobody to write to,
without the analysis a mail lacks the company.
"""

from __future__ import annotations

import json
import re

from stenolog.models import Model, ModelRequest, Scripted

from ..pace import PAUSE_SECONDS

TOPICS = {"people": "joined"}
"""The word of the report for a topic, where it is another one."""
SENT = re.compile(r'^<message sender="[^"]*">\n(.*)\n</message>$', re.DOTALL)
PERSON = re.compile(r"(\w+ \w+) \(([\w ]+)\) asks about ([\w ]+)\.")
LISTED = re.compile(r"^- (\w+ \w+), ([\w ]+): (.+)$", re.MULTILINE)


def scripted() -> Model:
    """Return a model that answers for all four agents."""
    return Scripted(reply, name="scripted", endless=True, piece=12, pause=PAUSE_SECONDS)


def reply(prompt: ModelRequest) -> str:
    """Return the answer to a request."""
    said = [SENT.sub(r"\1", str(message.get("content") or "")) for message in prompt.body["messages"]]
    match prompt.lane.partition("/")[0]:
        case "task_planner":
            return _plan(said)
        case "email_writer":
            return _mail(said)
        case "reviewer":
            return _score(said)
        case "summariser":
            earlier = re.findall(r"Mails so far: (.+)\.", _last(said, "<summary>"))
            names = dict.fromkeys([*", ".join(earlier).split(", "), *_mails(said)])
            return f"Mails so far: {', '.join(filter(None, names)) or 'none'}."
        case _:
            return _directs(said)


def _last(said: list[str], *words: str) -> str:
    """Return the last message with one of the words; empty if there is none."""
    return next((text for text in reversed(said) if any(word in text for word in words)), "")


def _line(said: list[str], label: str) -> str:
    """Return what stands behind a label of the orchestrator's analysis; empty if that is not there."""
    found = re.search(rf"^{label}: (.+)$", _last(said[1:], "\nStakeholders:\n"), re.MULTILINE)
    return found[1] if found else ""


def _report(said: list[str]) -> list[str]:
    """Return the sentences of the report; none if it is not there."""
    report = next((text for text in said[1:] if PERSON.search(text)), "")
    return [line for line in re.split(r"(?<=\.)\s+", report) if line and not PERSON.search(line)]


def _directs(said: list[str]) -> str:
    """Return the orchestrator's words: to the report, to a question, at the end."""
    asked = _last(said[1:], "asks about", "All mails are written", "?")
    if "All mails are written" in asked:
        return f"{len(_mails(said))} mails are written. Each gives the figures that its reader asks about."
    if "?" in asked:
        about = re.search(r"of (?:the )?(\w+)\?", asked)
        word = about[1] if about else "October"
        count = sum(word in mail for mail in _mails(said).values())
        return f"{count} mails speak of the {word}."
    return _analysis(said)


def _mails(said: list[str]) -> dict[str, str]:
    """Return the last mail to each reader."""
    letters = (re.match(r"Dear (\w+),", text) for text in said)
    return {found[1]: found.string for found in letters if found}


def _analysis(said: list[str]) -> str:
    if not (report := _report(said)):
        return "There is no report."
    people = PERSON.findall("\n".join(said[1:]))
    listed = "\n".join(f"- {name}, {role}: {', '.join(about.split(' and '))}" for name, role, about in people)
    figure = next((line for line in report if "%" in line), report[0])
    return f"Company: {report[0]}\nIn short: {figure}\nStakeholders:\n{listed}"


def _plan(said: list[str]) -> str:
    chosen = _last(said, "Write to:")
    listed = LISTED.findall(_last(said[1:], "\nStakeholders:\n"))
    mails = [{"to": f"{name}, {role}", "about": topics} for name, role, topics in listed if name in chosen]
    return json.dumps({"mails": mails})


def _mail(said: list[str]) -> str:
    """Return a mail of the report's sentences on its topics, and of what a reviewer or the user asks for."""
    found = re.search(r"Write to (\w+) .*about (.+)\.$", _last(said, "Write to "), re.MULTILINE)
    if found is None:
        return "Whom shall I write to?"
    lines = _on(found[2], _report(said)) or [f"There is news about {found[2]}."]
    lacking, wish = _last(said, "The reviewer lacks"), _last(said, "Shorter", "Warmer")
    company = _line(said, "Company").partition(":")[0]
    if "Shorter" in wish:
        return f"Dear {found[1]},\n\n{lines[0]}\n\nYours, Acme"
    opening = f"{company}; here is what October brought that concerns you. " if company else ""
    figure = f" {_line(said, 'In short')}" if "figure" in lacking else ""
    close = "Thank you for standing by us.\n\n" if "Warmer" in wish else ""
    return (
        f"Dear {found[1]},\n\n{opening}{' '.join(lines)}{figure}\n\n"
        f"{close}If anything is unclear, write back: a person will answer.\n\nYours, Acme"
    )


def _on(topics: str, lines: list[str]) -> list[str]:
    words = [TOPICS.get(topic, topic) for topic in topics.split(", ")]
    return [line for line in lines if any(word in line.lower() for word in words)]


def _score(said: list[str]) -> str:
    """Return the score of the mail in the last request: the share of checks that it passes."""
    asked = re.search(
        r"Score the mail to (\w+).*about (.+?):\n\n(.*)", _last(said, "Score the mail"), re.DOTALL
    )
    if asked is None:
        return "Which mail?"
    name, topics, mail = asked.groups()
    company, report = _line(said, "Company").partition(":")[0], " ".join(_report(said))
    figures = re.findall(r"\d[\d,.]*\d|\d", mail)
    checks = {
        "greeting": mail.startswith(f"Dear {name}"),
        "topics": all(TOPICS.get(topic, topic) in mail.lower() for topic in topics.split(", ")),
        "figure": bool(figures) and all(figure in report for figure in figures),
        "company": bool(company) and company in mail,
    }
    lacks = [what for what, passed in checks.items() if not passed]
    advice = f"The analysis says: {_line(said, 'In short')}" if "figure" in lacks else ""
    return json.dumps({"score": 1 - len(lacks) / len(checks), "lacks": lacks, "advice": advice})
