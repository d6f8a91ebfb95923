"""The end of the example, from the log alone."""

from __future__ import annotations

from stenolog import Conversation, Log

from .workflow import TALK, answers, mails, said, scores


def outcome(log: Log) -> object:
    """Return every mail with its score, in the conversation and in a fork, and the orchestrator's words.

    What a fork inherits is left out: which mails were done when another was asked for is up to chance.
    """
    told = [_told(log[name]) for name in sorted(log, key=lambda name: name != TALK)]
    spoken = [said(entry).text for entry in answers(log[TALK]) if said(entry).agent == "orchestrator"]
    return told, spoken


def _told(conversation: Conversation) -> dict[str, object]:
    parent = conversation.settings().parent
    after = parent.position if parent else 0
    given = scores(conversation)
    return {
        task: (said(mail).text, given.get(task))
        for task, mail in mails(conversation).items()
        if mail.position > after
    }
