"""What the example ends with, from the log alone."""

from __future__ import annotations

from stenolog import Log

from .workflow import TALK, answers, mails, said


def outcome(log: Log) -> object:
    """Every mail with its score, in the conversation and in the fork, and what the orchestrator has said."""
    told = {
        name: {task: (said(mail).text, said(mail).meta["quality"]) for task, mail in mails(log[name]).items()}
        for name in sorted(log, key=lambda name: name != TALK)
    }
    spoken = [said(entry).text for entry in answers(log[TALK]) if said(entry).agent == "orchestrator"]
    return list(told.values()), spoken
