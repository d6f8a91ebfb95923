"""The log of the answers: a conversation for each question, and what each answer cost.

A call is claimed before it begins, and its answer removes the claim. A killed process leaves its claims, by
which the next start knows what may have been spent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from stenolog.adapters.conversation.log import Conversation, Log, extend, open_existing
from stenolog.adapters.store.claims import Claims
from stenolog.adapters.store.contract.roles import Presence
from stenolog.adapters.store.contract.values import Claim
from stenolog.domain.entry import NewEntry, microseconds
from stenolog.domain.errors import CallerError, VersionConflictError
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch
from stenolog.domain.lanes.effects import MODEL
from stenolog.domain.values import Receipt
from stenolog.projections.analysis.retry.questions import ModelQuestion, ModelReply, is_final
from stenolog.projections.messages.json_fields import as_dict

Outcome: TypeAlias = AssistantMessage | LlmError
ASKED = "asked"
"""The key of `meta` that has a question, and the number and the cost of an answer."""
PIPELINE = "another log"
"""The pipeline in a receipt of an answer: its request was built from another log."""
DIED = "the process ended during the call, so what it cost is not known"
BUSY = "another process is asking for these answers now"


class Kept(NamedTuple):
    """The outcome of one number of a question: the last, with the cost and the number of its attempts."""

    outcome: Outcome
    micro_usd: int | None
    attempts: int
    time: datetime


class AnswerLog:
    """The answers in a log, for one start of asking, in one thread.

    `via` names who answers if it is not the recorded model: answers of others do not count. None: those of
    who answered last, for a reader.
    """

    def __init__(self, log: Log, via: str | None = "") -> None:
        self.log = log
        self.via = via
        self._presence: Presence | None = None
        self._claimed: set[int] = set()

    def outcomes(self, question: ModelQuestion) -> dict[int, Kept]:
        """Return what is known of each number of a question."""
        by: dict[str, dict[int, Kept]] = {"": {}}
        if question.key not in self.log:
            return {}
        for entry in self.log[question.key].entries():
            event = entry.event
            if not isinstance(event, AssistantMessage | LlmError):
                continue
            about = as_dict(event.meta.get(ASKED))
            number, cost = about.get("number"), about.get("micro_usd")
            if isinstance(number, int):
                via = str(about.get("via", ""))
                found = by[via] = by.pop(via, {})  # who answered last comes last
                before = found.get(number)
                known = [each for each in (before and before.micro_usd, cost) if isinstance(each, int)]
                attempts = 1 + (before.attempts if before else 0)
                found[number] = Kept(event, sum(known) if known else None, attempts, entry.time)
        return by[[*by][-1]] if self.via is None else by.get(self.via, {})

    def settle_dead(self, most: Iterable[tuple[ModelQuestion, int | None]]) -> None:
        """Append the end of calls whose process was killed, at the highest price of their questions.

        Raises `CallerError` if another process is asking one of them now.
        """
        recorder, owners = self.log.recorder, set[str]()
        for question, price in most:
            if question.key not in self.log:
                continue
            for claim in self._claims(question).all():
                if recorder.claims.owner_lives(claim.owner):
                    raise CallerError(f"{self.log.path}: {BUSY}")
                if (mine := self._claims(question).take_over(claim, self.presence.owner)) is not None:
                    self.append(question, mine, self._died(question, claim, price))
                    owners.add(claim.owner)
        # The file of a dead process goes only with its last claim: a missing one has its process looked for.
        for owner in owners - {claim.owner for _, claim in recorder.claims.everywhere()}:
            self.presence.forget(owner)

    def claim(self, question: ModelQuestion, number: int, attempt: int) -> Claim:
        """Claim one call, durably. Raises `CallerError` if another process has it."""
        talk = self._opened(question)
        wanted = Claim(
            0,
            f"{question.request.agent}/{number}",
            MODEL,
            1,
            attempt,
            f"{question.key[:32]}-{number}-{attempt}",
            self.presence.owner,
            microseconds(self.log.edge.clock()),
        )
        while True:
            with suppress(VersionConflictError):
                (taken,) = self._claims(question).take([wanted], talk.position)
                if taken is None:
                    raise CallerError(f"{self.log.path}: {BUSY}")
                self._claimed.add(taken.fence)
                return taken

    def append(self, question: ModelQuestion, claim: Claim, event: Outcome) -> None:
        """Append the outcome of a claimed call, and remove the claim."""
        extend(self.log[question.key], [event], None, claim.fence)
        self._claimed.discard(claim.fence)

    def close(self) -> None:
        """End the presence; what is claimed still is settled by the next start."""
        if self._presence is not None:
            self._presence.close(keep=bool(self._claimed))

    @property
    def presence(self) -> Presence:
        """The presence of this start, shown when it is first needed."""
        if self._presence is None:
            self._presence = self.log.recorder.claims.presence(self.log.edge.id())
        return self._presence

    def _claims(self, question: ModelQuestion) -> Claims:
        return Claims(self.log.recorder, self.log[question.key].stream)

    def about(self, number: int, micro_usd: int | None) -> dict[str, Any]:
        """Return the `meta` of an outcome: which answer it is, what it cost, at most, and who answered."""
        via = {"via": self.via} if self.via else {}
        return {ASKED: {"number": number, "micro_usd": micro_usd, **via}}

    def _died(self, question: ModelQuestion, claim: Claim, price: int | None) -> LlmError:
        return LlmError(
            agent=question.request.agent,
            task=question.request.task,
            category="process_exited",
            message=DIED,
            cause=1,
            attempt=claim.attempt,
            meta=self.about(int(claim.lane.rpartition("/")[2]), price),
        )

    def _opened(self, question: ModelQuestion) -> Conversation:
        """Return the question's conversation, which its first call begins."""
        talk, case = self.log[question.key], question.case
        if not talk.position:
            said: dict[str, Any] = {
                "conversation": case.conversation,
                "position": case.position,
                "variant": question.variant,
            }
            title = f"{case.conversation}:{case.position}, {question.variant or 'as recorded'}"
            opening = ModeSwitch(title=title[:200], joins=(question.request.agent,), meta={ASKED: said})
            with suppress(VersionConflictError):
                talk.extend([NewEntry(opening)], expected=0)
        return talk


def beside(file: Path) -> Path:
    """Return the file of the answers to questions about a database's calls, unless another is given."""
    return file.with_name(f"{file.stem}.answers.db")


def receipt(question: ModelQuestion) -> Receipt:
    """Return the receipt of an answer, for a request that was built from another log."""
    request = question.request
    return Receipt(view=1, sha256=request.sha256, api=request.api, pipeline=PIPELINE)


def reply(question: ModelQuestion, number: int, kept: Kept) -> ModelReply:
    """Return what is kept as a reply."""
    event = kept.outcome
    said, failed = (event, None) if isinstance(event, AssistantMessage) else (None, event)
    return ModelReply(question, number, said, failed, kept.micro_usd, kept.time)


@contextmanager
def open_beside(log: Log) -> Iterator[Log | None]:
    """Open the answers beside a log's file; None if there are none. Nothing is created."""
    if not (files := _files(log)):
        yield None
        return
    with open_existing(str(files[0])) as answers:
        yield answers


def version_beside(log: Log) -> int:
    """Return a number that is another one once there are more answers beside a log; 0: there are none."""
    return sum(file.stat().st_mtime_ns for file in _files(log))


def _files(log: Log) -> list[Path]:
    """Return the file of the answers beside a log, and that of its newest pages."""
    if log.recorder.is_private:
        return []
    file = beside(Path(log.recorder.address))
    return [each for each in (file, Path(f"{file}-wal")) if file.exists() and each.exists()]


def replies(
    questions: Iterable[ModelQuestion], log: Log, times: int | None = None, via: str | None = None
) -> Iterable[ModelReply]:
    """Yield the final replies that a log has, each question's in order; nothing is asked.

    `via` as in `AnswerLog`.
    """
    answers = AnswerLog(log, via)
    for question in questions:
        for number, kept in sorted(answers.outcomes(question).items()):
            if is_final(kept.outcome) and (times is None or number <= times):
                yield reply(question, number, kept)
