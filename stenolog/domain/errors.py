"""Every error stenolog raises, sorted by whose fault it is.

StenologError
├── CallerError                 what was asked for cannot be done as it was asked
│   ├── InvalidEvent            an event that cannot be stored as given, or a question that makes no sense
│   ├── IllegalCommand          `decide` refused: not legal in the lane's state
│   ├── IdTaken                 the entry id stands in the log with other bytes
│   ├── StaleAppend             someone else appended first
│   ├── UnknownConversation     no conversation of that name
│   ├── UnknownPosition         no entry at that position
│   ├── UnknownAgent            no such agent in this conversation
│   ├── ConversationInUse       it exists already, or living forks hang on it
│   ├── NotATranscript          a file that no importer recognises
│   ├── InvalidPolicy           a context policy that no request can be made by
│   ├── NotSendable             a request that nobody may send: nothing to answer, or over its budget
│   ├── ClaimLost               somebody else has taken this effect over
│   ├── TableFailed             a table of SQL goes no further: its own function failed, say
│   ├── Diverged                a run that is replayed asks for something that was not recorded
│   └── MissingExtra            an optional package is not installed
├── StoredDataError             what is on disk is not what was written, or not for us
│   ├── CorruptLog              a gap, a digest that does not match, undecodable bytes
│   ├── MissingBlob             a blob that an entry names is gone or damaged
│   ├── NotALog                 the file is not a stenolog database
│   └── LaterRelease            written by a release later than this one
├── ProviderError               the model's provider failed or refused
│   └── ModelFailed             one call of a model failed, in a category of `llm_error`
├── ToolError                   a tool failed
└── MachineError                the machine under us
    ├── StoreBusy               the store did not answer before the deadline
    └── StoreFailed             the disk is full, the file is read-only, an I/O error
"""

from __future__ import annotations


class StenologError(Exception):
    """The base of them all; never raised itself."""


class CallerError(StenologError):
    """What was asked for cannot be done as it was asked."""


class InvalidEvent(CallerError, ValueError):
    """An event that cannot be stored as given, or a question that makes no sense; nothing was written."""


class IllegalCommand(CallerError):
    """`decide` refused a command: it is not legal in the state the lane is in."""


class IdTaken(CallerError):
    """The entry id already stands in the conversation with other bytes; nothing was written."""


class StaleAppend(CallerError):
    """Someone else appended first; read again and decide again. Nothing was written."""

    def __init__(self, conversation: str, *, expected: int, found: int) -> None:
        super().__init__(
            f"conversation {conversation!r}: expected position {expected}, but the log stands at {found}"
        )
        self.conversation = conversation
        self.expected = expected
        self.found = found

    def __reduce__(self) -> tuple[object, ...]:
        return _stale, (self.conversation, self.expected, self.found)


def _stale(conversation: str, expected: int, found: int) -> StaleAppend:
    return StaleAppend(conversation, expected=expected, found=found)


class UnknownConversation(CallerError, LookupError):
    """No conversation of that name is in the log."""


class UnknownPosition(CallerError, LookupError):
    """The conversation has no entry at that position, or has not come so far."""


class UnknownAgent(CallerError, LookupError):
    """No agent of that name takes part in the conversation."""


class ConversationInUse(CallerError):
    """The name is taken, or living forks hang on the conversation."""


class NotATranscript(CallerError, ValueError):
    """A file that no importer recognises, or that holds no conversation."""


class InvalidPolicy(CallerError, ValueError):
    """A context policy that no request can be made by: an unknown rule, field or counter."""


class NotSendable(CallerError):
    """A request that nobody may send: there is nothing to answer, or what must stay is over its budget."""


class ClaimLost(CallerError):
    """Somebody else has taken this effect over: what came of it here is not appended."""


class TableFailed(CallerError):
    """A table of SQL has stopped before the log's end: its own function failed, or it was made by another."""


class Diverged(CallerError):
    """A run that is replayed asks for what was not recorded; the message names the first difference."""


class MissingExtra(CallerError, ImportError):
    """An optional package is not installed; the message is the line that installs it."""

    def __init__(self, extra: str, package: str) -> None:
        super().__init__(f'{package} is not installed: pip install "stenolog[{extra}]"')
        self.extra = extra
        self.package = package

    def __reduce__(self) -> tuple[object, ...]:
        return MissingExtra, (self.extra, self.package)


class StoredDataError(StenologError):
    """What is on disk is not what was written, or not for this release."""


class CorruptLog(StoredDataError):
    """A gap, a digest that does not match, bytes that do not decode."""


class MissingBlob(StoredDataError, KeyError):
    """A blob that an entry names is gone, or its bytes are not those of its hash."""

    __str__ = Exception.__str__  # a KeyError would show the message in quotes


class NotALog(StoredDataError):
    """The file is not a stenolog database."""


class LaterRelease(StoredDataError):
    """Written by a release later than this one; the message says which is needed."""


class ProviderError(StenologError):
    """The model's provider failed or refused."""


class ModelFailed(ProviderError):
    """One call of a model failed.

    `category` is one of `llm_error`'s. `retry_after` is how many seconds the provider asks to wait, where it
    says so; `status` is its HTTP status, 0 where there is none.
    """

    def __init__(
        self, category: str, message: str, *, retry_after: float | None = None, status: int = 0
    ) -> None:
        super().__init__(message)
        self.category = category
        self.message = message
        self.retry_after = retry_after
        self.status = status

    def __reduce__(self) -> tuple[object, ...]:
        return _model_failed, (self.category, self.message, self.retry_after, self.status)


def _model_failed(category: str, message: str, retry_after: float | None, status: int) -> ModelFailed:
    return ModelFailed(category, message, retry_after=retry_after, status=status)


class ToolError(StenologError):
    """A tool failed."""


class MachineError(StenologError):
    """The machine under us failed."""


class StoreBusy(MachineError, TimeoutError):
    """The store did not answer before the deadline; whether to try again is the caller's choice."""


class StoreFailed(MachineError, OSError):
    """The disk is full, the file is read-only, or an I/O error; nothing was half written."""
