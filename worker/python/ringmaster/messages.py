"""The messages between a rank and its agent, as JSON lines. The C++ version is common/control/rank_agent_messages.h.

Each side ignores fields and types that it does not know (common/control/README.md, "Versions"). Data from the agent is
not trusted: for any bytes, decode() either returns a message or raises MessageError.
"""

import base64
import dataclasses
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from .world import Epoch, KeptCheckpoint, Member, Progress

PROTOCOL = 4  # the protocol version of this module
MAX_LINE_BYTES = 16 << 20  # includes the newline
MAX_RANKS = 16384  # limit of a job's ranks
MAX_NAME_CHARACTERS = 1024  # limit of each text that identifies a member

T = TypeVar("T")
JsonObject = dict[str, Any]


class MessageError(ValueError):
    """A line that is not a message, or a message with a wrong field."""


# --- rank -> agent


@dataclass(frozen=True)
class RankHello:
    """The first message: the rank has loaded and waits for a world."""

    slot: int
    pid: int  # for messages and logs
    protocol: int = PROTOCOL


@dataclass(frozen=True)
class RankBroken:
    epoch: Epoch
    rank: int
    peer: int  # the rank that this rank could not reach; -1: unknown
    reason: str


@dataclass(frozen=True)
class RankAtBoundary:
    epoch: Epoch
    rank: int
    step: int


@dataclass(frozen=True)
class RankProgress:
    epoch: Epoch
    progress: Progress


@dataclass(frozen=True)
class RankDone:
    epoch: Epoch
    rank: int
    trained: bool  # False: the state contains no step of this job


@dataclass(frozen=True)
class CheckpointWritten:
    epoch: Epoch
    rank: int
    step: int
    shard: int
    nbytes: int
    checksum: str


@dataclass(frozen=True)
class CheckpointDone:
    epoch: Epoch
    rank: int
    step: int
    nbytes: int


@dataclass(frozen=True)
class Beginning:
    step: int
    message: str


@dataclass(frozen=True)
class RankBegan:
    epoch: Epoch
    rank: int
    beginning: Beginning
    kept: KeptCheckpoint | None


@dataclass(frozen=True)
class RankProtection:
    slot: int
    what: str
    fault: str


@dataclass(frozen=True)
class StoreSet:
    epoch: Epoch
    key: str
    value: bytes


@dataclass(frozen=True)
class StoreGet:
    epoch: Epoch
    id: int
    rank: int
    keys: list[str]


# --- agent -> rank


@dataclass(frozen=True)
class RankEpoch:
    """The world that the rank must join. A world with a higher epoch may follow at any time."""

    epoch: Epoch
    rank: int
    members: tuple[Member, ...]
    full_size: int = 0  # the number of ranks that the job wants; 0: unknown


@dataclass(frozen=True)
class RankLeave:
    below: Epoch  # every epoch below is over


@dataclass(frozen=True)
class RankSwitch:
    epoch: Epoch  # the epoch that the ranks must leave after the next step
    leaving: bool


@dataclass(frozen=True)
class CheckpointGrant:
    epoch: Epoch
    rank: int
    step: int
    shard: int


@dataclass(frozen=True)
class TakeCheckpoint:
    epoch: Epoch


@dataclass(frozen=True)
class Release:
    epoch: Epoch  # the epoch whose ranks may end


@dataclass(frozen=True)
class StoreValues:
    epoch: Epoch
    id: int
    rank: int
    values: list[bytes]


# --- encoding


def encode(message: Any) -> bytes:
    """Encodes a message as one line with its newline. Replaces characters that UTF-8 cannot encode."""
    fields = _written(message)
    fields["type"] = type(message).__name__
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", "replace") + b"\n"


def _written(value: Any) -> Any:
    if isinstance(value, (Epoch, KeptCheckpoint)):
        return {_wire_name(name): _written(field) for name, field in value._asdict().items()}
    if dataclasses.is_dataclass(value):
        names = (field.name for field in dataclasses.fields(value))
        return {_wire_name(name): _written(getattr(value, name)) for name in names}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _wire_name(name: str) -> str:
    if name == "nbytes":
        return "bytes"
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


# --- decoding


def decode(line: bytes) -> Any:
    """Decodes a line without its newline. Returns None if agents do not send messages of this type to ranks."""
    try:
        text = line.decode()
        json_object = json.loads(text, parse_int=_number, parse_float=_number, parse_constant=_number)
    except (ValueError, RecursionError):
        raise MessageError("reading a message: the line is not JSON") from None
    if not isinstance(json_object, dict) or not isinstance(json_object.get("type"), str):
        raise MessageError("reading a message: it has no type")
    read = _READERS.get(json_object["type"])
    if read is None:
        return None
    try:
        return read(json_object)
    except MessageError as error:
        raise MessageError(f"reading a {json_object['type']} message: {error}") from None


def _number(text: str) -> int | float:
    """Parses an integer with bounded work and memory; rejects integers of more than 64 bits."""
    if len(text) <= 20 and text.lstrip("-").isdigit():
        return int(text)
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _field(json_object: Any, name: str, read: Callable[[Any], T]) -> T:
    """Returns a required field of a message, read with `read`."""
    if not isinstance(json_object, dict):
        raise MessageError("expected an object")
    if name not in json_object:
        raise MessageError(f"field '{name}' is missing")
    try:
        return read(json_object[name])
    except MessageError as error:
        raise MessageError(f"field '{name}': {error}") from None


def _optional(json_object: JsonObject, name: str, read: Callable[[Any], T], otherwise: T) -> T:
    return otherwise if json_object.get(name) is None else _field(json_object, name, read)


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise MessageError("expected an integer")
    if not -(2**63) <= value < 2**63:
        raise MessageError("is out of range")
    return value


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise MessageError("expected true or false")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise MessageError("expected text")
    try:
        value.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        raise MessageError("is not Unicode") from None
    return value


def _name(value: Any) -> str:
    text = _text(value)
    if len(text) > MAX_NAME_CHARACTERS:
        raise MessageError("is too long")
    return text


def _bytes(value: Any) -> bytes:
    if not isinstance(value, str):
        raise MessageError("expected text")
    try:
        decoded = base64.b64decode(value, validate=True)
    except ValueError:
        raise MessageError("is not base64") from None
    if base64.b64encode(decoded).decode() != value:
        raise MessageError("is not base64")
    return decoded


def _list(read: Callable[[Any], T]) -> Callable[[Any], list[T]]:
    def read_list(value: Any) -> list[T]:
        if not isinstance(value, list):
            raise MessageError("expected a list")
        return [read(item) for item in value]

    return read_list


def _epoch(value: Any) -> Epoch:
    return Epoch(_field(value, "term", _integer), _field(value, "number", _integer))


def _slot(value: Any) -> int:
    slot = _integer(value)
    if not 0 <= slot <= MAX_RANKS:
        raise MessageError("is not a valid slot")
    return slot


def _host(value: Any) -> list[Member]:
    """Returns the members on a host, in the order of their ranks."""
    pod_uid, pod, node, address, start = (
        _field(value, name, _name) for name in ("podUid", "pod", "node", "address", "start")
    )
    slots, starts = _field(value, "slots", _list(_slot)), _field(value, "starts", _list(_name))
    if len(slots) != len(starts) or len(slots) > MAX_RANKS:
        raise MessageError("has a host with invalid slots")
    return [Member(pod_uid, pod, node, address, slot, start + end) for slot, end in zip(slots, starts)]


def _members(value: Any) -> tuple[Member, ...]:
    """Returns a world's members, given its hosts and the order of their ranks (common/control/members_wire.h)."""
    if isinstance(value, dict) and isinstance(value.get("hosts"), list) and len(value["hosts"]) > MAX_RANKS:
        raise MessageError("has too many hosts")  # checked before memory is allocated for them
    hosts = _field(value, "hosts", _list(_host))
    order = _field(value, "order", _list(_integer))
    count = sum(map(len, hosts))
    if count > MAX_RANKS:
        raise MessageError("has too many ranks")
    if len(order) % 2 != 0:
        raise MessageError("has an order that is not a list of pairs")
    members: list[Member] = []
    taken = [0] * len(hosts)
    for place, ranks in zip(order[::2], order[1::2]):
        if not 0 <= place < len(hosts):
            raise MessageError("refers to a host that does not exist")
        if not 0 <= ranks <= len(hosts[place]) - taken[place]:
            raise MessageError("names more ranks than hosts have")
        members += hosts[place][taken[place] : taken[place] + ranks]
        taken[place] += ranks
    if len(members) != count:
        raise MessageError("does not place all ranks of a host")
    return tuple(members)


def _read_rank_epoch(fields: JsonObject) -> RankEpoch:
    return RankEpoch(
        _field(fields, "epoch", _epoch),
        _field(fields, "rank", _integer),
        _field(fields, "members", _members),
        _optional(fields, "fullSize", _integer, 0),
    )


def _read_rank_switch(fields: JsonObject) -> RankSwitch:
    return RankSwitch(_field(fields, "epoch", _epoch), _optional(fields, "leaving", _bool, False))


def _read_grant(fields: JsonObject) -> CheckpointGrant:
    epoch = _field(fields, "epoch", _epoch)
    return CheckpointGrant(epoch, *(_field(fields, name, _integer) for name in ("rank", "step", "shard")))


def _read_values(fields: JsonObject) -> StoreValues:
    epoch = _field(fields, "epoch", _epoch)
    number, rank = _field(fields, "id", _integer), _field(fields, "rank", _integer)
    return StoreValues(epoch, number, rank, _field(fields, "values", _list(_bytes)))


_READERS: dict[str, Callable[[JsonObject], Any]] = {
    "RankEpoch": _read_rank_epoch,
    "RankLeave": lambda fields: RankLeave(_field(fields, "below", _epoch)),
    "RankSwitch": _read_rank_switch,
    "CheckpointGrant": _read_grant,
    "TakeCheckpoint": lambda fields: TakeCheckpoint(_field(fields, "epoch", _epoch)),
    "Release": lambda fields: Release(_field(fields, "epoch", _epoch)),
    "StoreValues": _read_values,
}
