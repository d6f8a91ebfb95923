"""Every error stenolog raises, sorted by whose fault it is.

StenologError
├── CallerError                     what was asked for cannot be done as it was asked
│   ├── InvalidEventError           an event that cannot be stored as given, or a question that makes no sense
│   ├── IllegalCommandError         `decide` refused: not legal in the lane's state
│   ├── DuplicateIdError            the entry id is in the log with other bytes
│   ├── VersionConflictError        someone else appended first
│   ├── ConversationNotFoundError   no conversation of that name
│   ├── PositionNotFoundError       no entry at that position
│   ├── AgentNotFoundError          no such agent in this conversation
│   ├── ConversationExistsError     it exists already, or living forks hang on it
│   ├── HeldError                   under hold: nothing of it may be erased or deleted
│   ├── UnknownFormatError          a file that no importer recognises
│   ├── InvalidPolicyError          a context policy that no request can be made by
│   ├── RequestNotSendableError     a request that must not be sent: nothing to answer, or over its budget
│   ├── ClaimLostError              another process has taken this effect over
│   ├── TableError                  a table of SQL goes no further: its own function failed, say
│   ├── ReplayMismatchError         a run that is replayed asks for something that was not recorded
│   ├── NotRegisteredError          a name that no registry has: its plugin is not loaded
│   ├── PluginError                 a plugin that cannot be loaded
│   └── MissingExtraError           an optional package is not installed
├── StoredDataError                 what is on disk is not what was written, or not for us
│   ├── CorruptLogError             a gap, a digest that does not match, undecodable bytes
│   ├── BlobNotFoundError           a blob that an entry names is gone or damaged
│   ├── NotADatabaseError           the file is not a stenolog database
│   └── UnsupportedVersionError     written by a release later than this one
├── ProviderError                   the model's provider failed or refused
│   └── ModelError                  one call of a model failed, in a category of `llm_error`
├── ToolError                       a tool failed
└── OperationalError                the machine under us
    ├── StoreTimeoutError           the store did not answer before the deadline
    └── StoreError                  the disk is full, the file is read-only, an I/O error
"""

from __future__ import annotations


class StenologError(Exception):
    """The base of them all; never raised itself."""


class CallerError(StenologError):
    """The caller asked for something invalid or impossible."""


class InvalidEventError(CallerError, ValueError):
    """An event that cannot be stored as given, or a question that makes no sense; nothing was written."""


class IllegalCommandError(CallerError):
    """`decide` refused a command: it is not legal in the state the lane is in."""


class DuplicateIdError(CallerError):
    """The entry id is already in the conversation with other bytes; nothing was written."""


class VersionConflictError(CallerError):
    """Someone else appended first; read again and decide again. Nothing was written."""

    def __init__(self, conversation: str, *, expected: int, found: int) -> None:
        super().__init__(
            f"conversation {conversation!r}: expected position {expected}, but the log stands at {found}"
        )
        self.conversation = conversation
        self.expected = expected
        self.found = found

    # An exception with arguments of its own does not unpickle by itself, as multiprocessing needs it.
    def __reduce__(self) -> tuple[object, ...]:
        return _stale, (self.conversation, self.expected, self.found)


def _stale(conversation: str, expected: int, found: int) -> VersionConflictError:
    return VersionConflictError(conversation, expected=expected, found=found)


class ConversationNotFoundError(CallerError, LookupError):
    """No conversation of that name is in the log."""


class PositionNotFoundError(CallerError, LookupError):
    """The conversation has no entry at that position, or has not come so far."""


class AgentNotFoundError(CallerError, LookupError):
    """No agent of that name takes part in the conversation."""


class ConversationExistsError(CallerError):
    """The name is taken, or living forks hang on the conversation."""


class HeldError(CallerError):
    """Under hold: nothing of it may be erased or deleted. The message names the hold."""


class UnknownFormatError(CallerError, ValueError):
    """A file that no importer recognises, or that holds no conversation."""


class InvalidPolicyError(CallerError, ValueError):
    """A context policy that no request can be made by: an unknown rule, field or counter."""


class RequestNotSendableError(CallerError):
    """A request that must not be sent: there is nothing to answer, or what must stay is over its budget."""


class ClaimLostError(CallerError):
    """Another process has taken this effect over: its result from here is not appended."""


class TableError(CallerError):
    """A table of SQL has stopped before the log's end: its own function failed, or it was made by another."""


class ReplayMismatchError(CallerError):
    """A run that is replayed asks for what was not recorded; the message names the first difference."""


class NotRegisteredError(CallerError, KeyError):
    """A name that is in no registry here; the message says which are, and how a plugin is loaded."""

    __str__ = Exception.__str__


class PluginError(CallerError, ImportError):
    """A plugin cannot be loaded; the message says which, and why."""


class MissingExtraError(CallerError, ImportError):
    """An optional package is not installed; the message is the line that installs it."""

    def __init__(self, extra: str, package: str) -> None:
        super().__init__(f'{package} is not installed: pip install "stenolog[{extra}]"')
        self.extra = extra
        self.package = package

    def __reduce__(self) -> tuple[object, ...]:
        return MissingExtraError, (self.extra, self.package)


class StoredDataError(StenologError):
    """The data on disk is damaged, or this release cannot read it."""


class CorruptLogError(StoredDataError):
    """A gap, a digest that does not match, bytes that do not decode."""


class BlobNotFoundError(StoredDataError, KeyError):
    """A blob that an entry names is gone, or its bytes are not those of its hash."""

    # A KeyError would show the message in quotes.
    __str__ = Exception.__str__


class NotADatabaseError(StoredDataError):
    """The file is not a stenolog database."""


class UnsupportedVersionError(StoredDataError):
    """Written by a release later than this one; the message says which is needed."""


class ProviderError(StenologError):
    """The model's provider failed or refused."""


class ModelError(ProviderError):
    """One call of a model failed.

    `category` is one of `llm_error`'s. `retry_after` are the seconds that the provider asks to wait, if any;
    `status` is its HTTP status, 0 if unknown.
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


def _model_failed(category: str, message: str, retry_after: float | None, status: int) -> ModelError:
    return ModelError(category, message, retry_after=retry_after, status=status)


class ToolError(StenologError):
    """A tool failed."""


class OperationalError(StenologError):
    """The machine under us failed."""


class StoreTimeoutError(OperationalError, TimeoutError):
    """The store did not answer before the deadline; whether to try again is the caller's choice."""


class StoreError(OperationalError, OSError):
    """The disk is full, the file is read-only, or an I/O error; nothing was half written."""
