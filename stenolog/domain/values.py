"""The small frozen values that events are made of.

They are the storage format: strict, no sets, no NaN, defaults left out. A field is added only with
a new version of the event that holds it (see `codec`).
"""

import dataclasses
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast, dataclass_transform

from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass
from pydantic.fields import FieldInfo

from .errors import InvalidEventError
from .json_types import Integer, Json, Positive

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, defer_build=True)
"""Validators are built when a class is first used: a program that merely imports stenolog pays for none."""
T = TypeVar("T")

if TYPE_CHECKING:
    Many: TypeAlias = Sequence
else:

    class Many:
        """A field of several: given as a list or a tuple, held as a tuple."""

        def __class_getitem__(cls, item: Any) -> Any:
            return tuple[item, ...]


class ValueMeta(type):
    """The type of values: what their constructors take, before it is validated. Decoding passes it by."""

    from_short: Callable[[dict[str, Any]], dict[str, Any]] | None = None

    def __call__(cls, /, **fields: Any) -> Any:
        """A value of these fields; a list stands for a tuple. Raises `InvalidEventError`."""
        prepared = cls.prepare(fields)
        for name, given in prepared.items():
            if type(given) is list:
                prepared[name] = tuple(given)
        try:
            return super().__call__(**prepared)
        except ValidationError as error:
            strangers = ", ".join(sorted(prepared.keys() - vars(cls)["__dataclass_fields__"].keys()))
            what = f"no such field: {strangers}" if strangers else first_error(error, cls)
            raise InvalidEventError(f"{cls.__name__}: {what}") from None

    def prepare(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields as they are stored, from the fields as they are given."""
        return fields if cls.from_short is None else cls.from_short(fields)

    def found(cls, given: object) -> str:
        """What was found: its type, and not the words, which may be secret."""
        return type(given).__name__


def first_error(error: ValidationError, cls: Any) -> str:
    """The first complaint, with its place and what was found."""
    first = error.errors(include_url=False, include_context=False)[0]
    ours = takewhile(lambda step: isinstance(step, int) or step in cls.__dataclass_fields__, first["loc"])
    place = "/".join(map(str, ours))
    if first["type"] == "union_tag_invalid":
        return f"/{place}: no such type"
    if first["type"] == "missing":
        return f"/{place}: expected a value, found none"
    return f"/{place}: {first['msg']}, found {cls.found(first['input'])}"


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field,))
def frozen_value(cls: type[T], made_by: type[ValueMeta] = ValueMeta) -> type[T]:
    """A frozen, slotted, strictly validated dataclass with keyword-only fields; lists become tuples."""
    body = {name: thing for name, thing in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    made: Any = dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)(
        made_by(cls.__name__, cls.__bases__, body)  # type: ignore[arg-type]
    )
    result: type[T] = made
    return result


def construct(cls: type[T], **fields: Any) -> T:
    """A value of fields that are known to be right, as they are stored, and the defaults of the others.

    Nothing is validated: a program that asks one question need not wait until a validator is built.
    """
    made, kind = object.__new__(cls), cast(Any, cls)
    for declared in dataclasses.fields(kind):
        name = declared.name
        object.__setattr__(made, name, fields[name] if name in fields else _default(declared))
    return made


def _default(declared: Any) -> Any:
    default = declared.default
    if isinstance(default, FieldInfo):
        return default.get_default(call_default_factory=True, validated_data={})
    if default is dataclasses.MISSING:
        raise TypeError(f"{declared.name}: expected a value, for there is no default")
    return default


def tag(name: str) -> Any:
    """The default of a discriminating field: given by itself, and yet always written.

    A factory that takes the validated data is never compared by `exclude_defaults`.
    """
    return Field(default_factory=lambda _data: name)


@frozen_value
class Origin:
    """Where an imported event came from: the foreign system, and the ids and role it had there."""

    system: str
    id: str = ""
    role: str = ""
    lines: Many[str] = ()
    """The foreign records this event was made of, so that an import can be taken up again."""


@frozen_value
class PositionRange:
    """The positions `first` to `last`, both included."""

    first: Positive
    last: Positive

    def __contains__(self, position: int) -> bool:
        return self.first <= position <= self.last


@frozen_value
class CallRef:
    """One tool call: the id of the entry that holds it, and its index among that entry's calls."""

    entry: str
    index: Integer = 0


@frozen_value
class ConversationRef:
    """A named link to another conversation: its name then, a position in it, and the digest there."""

    conversation: str
    position: Integer
    digest: str


@frozen_value
class Control:
    """What a person tells the engine to do.

    `approve` and `refuse` name one call by `call`; `cancel` and `continue` name a lane by
    `agent` and `task`. An `approve` may change the call: `arguments`, a JSON object, run in the place of the
    model's.
    """

    action: Literal["approve", "refuse", "cancel", "continue"]
    call: CallRef | None = None
    agent: str = ""
    task: str = ""
    arguments: str = ""


@frozen_value
class Usage:
    """Tokens, as the provider counted them. `input` counts what was read from the cache too.

    `cost` is the price of the call in micro-dollars, where the provider or the agent states one.
    """

    input: Integer = 0
    output: Integer = 0
    cache_read: Integer = 0
    cache_write: Integer = 0
    reasoning: Integer = 0
    cost: Integer | None = None


@frozen_value
class Receipt:
    """What an answer or an error keeps of the request that caused it: enough to build it again.

    `view`: the position that the request was built at. `policy`, `pipeline`, `api` and `counter`:
    what built it, with versions. `plan`: the choices (cut, kept runs, previews). `sha256`: of the
    body handed to the SDK, as compact UTF-8 JSON in the order sent, blobs by hash.
    """

    view: Integer
    sha256: str
    api: str = ""
    pipeline: str = ""
    counter: str = ""
    policy: Json = Field(default_factory=dict)
    plan: Json = Field(default_factory=dict)


@frozen_value
class Tool:
    """A tool that an agent may call. `parameters` is its JSON Schema, of type object."""

    name: str
    description: str = ""
    parameters: Json = Field(default_factory=dict)
    approval: bool = False
    """True: a person approves each call before it runs."""
    strict: bool | None = None
    """Whether OpenAI holds the model to the schema; None: its default."""


def with_policy(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields with the policy as JSON, from a value of `stenolog.context` or several, or from JSON."""
    if not fields.get("policy"):
        return fields
    from .policy import policy  # late: it is made of these values

    return {**fields, "policy": policy(fields["policy"]).json}


@frozen_value
class AgentCard:
    """An agent's configuration: never a message, always a setting.

    `tools` None means that they are not known: stubs are made for those it called.
    `parameters` are the provider's own (temperature, max_tokens …). `policy` chooses the context: a
    value of `stenolog.context`, held as its JSON.
    """

    from_short = staticmethod(with_policy)

    model: str = ""
    provider: str = ""
    persona: str = ""
    tools: Many[Tool] | None = None
    parameters: Json = Field(default_factory=dict)
    if TYPE_CHECKING:
        policy: Any = {}
    else:
        policy: Json = Field(default_factory=dict)


@frozen_value
class WorkflowRun:
    """A workflow run: its id, its directive, and the brief and context of the node it is at."""

    id: str
    directive: str = ""
    node: str = ""
    brief: str = ""
    context: str = ""


@frozen_value
class TurnPolicy:
    """Whose turn it is when a message names nobody: a rule by name, and its options."""

    rule: str
    options: Json = Field(default_factory=dict)
