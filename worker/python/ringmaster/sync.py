"""Synchronizes the state of the ranks of a new world.

Each rank reports the version of its state. The lowest rank with the newest version, or the lowest of those that trained
it, sends its state to the other ranks in pieces of limited size. They receive the state into separate memory and adopt
it only once it is complete and its checksum matches, so a failed attempt changes nothing. The protocol is the one of
worker/trainer/elastic/state_sync.h.
"""

from __future__ import annotations

import hashlib
import itertools
import struct
from dataclasses import dataclass, replace
from typing import Callable, Sequence

import torch

from .errors import RingmasterError, Unavailable, UserError, WorldOver
from .packed import Packed, checksum_of, pack, unpack
from .position import Phase, Position
from .state import ORIGINS, LocalState, StateVersion, TrainingState
from .transport import Communicator, buffer_of
from .world import Epoch

_PIECE_BYTES = 8 << 20
_TEXT_BYTES = 256 << 20  # maximum size of a state without its tensors


@dataclass(frozen=True)
class Adopted:
    """The state that all ranks have after a sync."""

    held: LocalState
    checksum: int


class StateSync:
    """One attempt to synchronize the state in one world. `settings` must be equal on all ranks, in addition to the
    shapes of the state.

    If no rank has trained, each rank calls `look_again`, because a newer checkpoint may exist than the one that a rank
    loaded. `look_again` looks for a checkpoint, loads it into the state and returns the new LocalState. It raises
    Unavailable if this rank cannot read the checkpoints now; it is sufficient if another rank reads a state. While no
    rank can read the checkpoints, all ranks call `pause` and look again.
    """

    def __init__(self, communicator: Communicator, state: TrainingState, held: LocalState, settings: str,
                 position: Position, look_again: Callable[[LocalState], LocalState] | None,
                 pause: Callable[[int], None]):
        self._communicator = communicator
        self._state = state
        self._held = held
        self._text = state.describe() + "\n" + settings
        self._position = position
        self._look_again = look_again
        self._pause = pause
        self._pieces = 0

    def run(self) -> Adopted:
        """Synchronizes the ranks. Raises WorldOver if the world broke; the state is then unchanged. Raises UserError on
        all ranks if they cannot train together."""
        statements = self._gather(readable=True)
        if all(held.origin != "training" for held, _, _, _ in statements) and self._look_again is not None:
            statements = self._all_look_again()
        compare_texts(self._communicator, self._text, [fingerprint for _, _, fingerprint, _ in statements])
        winner = max(range(len(statements)), key=lambda rank: (statements[rank][0].sort_key(), -rank))
        best, checksum, _, _ = statements[winner]
        behind = [rank for rank, (held, other, _, _) in enumerate(statements)
                  if held.version != best.version or other != checksum]
        differs = [rank for rank in behind if statements[rank][0].version == best.version]
        if differs and best.version.step > 0:
            raise UserError(f"rank {differs[0]} has other parameters than rank {winner} after the same "
                            f"{best.version.step} steps: change parameters and optimizer only in the step, and in the "
                            "same way on every rank")
        if behind:
            self._move(winner, checksum, take=self._communicator.rank in behind)
        frozen = _send_bytes(self._communicator, "\n".join(self._state.frozen()).encode(), winner).decode()
        self._state.freeze(frozen.split("\n") if frozen else [])
        finishing = any(held.finishing for held, _, _, _ in statements if held.version == best.version)
        return Adopted(replace(best, finishing=finishing), checksum)

    def _gather(self, readable: bool) -> list[tuple[LocalState, int, int, bool]]:
        version = self._held.version
        fingerprint = int.from_bytes(hashlib.blake2b(self._text.encode(), digest_size=8).digest(), "little")
        words = [_signed(fingerprint), _signed(self._state.checksum()), version.epoch.term, version.epoch.number,
                 version.step, self._held.term_base, ORIGINS.index(self._held.origin),
                 int(readable) | self._held.finishing << 1, *struct.unpack("q", struct.pack("d", self._held.loss))]
        mine = torch.tensor(words, dtype=torch.int64, device=self._communicator.device)
        gathered = []
        for row in self._communicator.all_gather(mine):
            theirs = row.tolist()
            held = LocalState(StateVersion(Epoch(theirs[2], theirs[3]), theirs[4]), theirs[5],
                              ORIGINS[theirs[6] % len(ORIGINS)], bool(theirs[7] & 2),
                              *struct.unpack("d", struct.pack("q", theirs[8])))
            gathered.append((held, theirs[1] % 2**64, theirs[0] % 2**64, bool(theirs[7] & 1)))
        return gathered

    def _all_look_again(self) -> list[tuple[LocalState, int, int, bool]]:
        attempt = 0
        while True:
            self._position.enter(Phase.EVALUATE)  # reading a large state takes long
            try:
                self._held = self._look_again(self._held)
                readable = True
            except Unavailable:
                readable = False
            statements = self._gather(readable)
            if any(read for _, _, _, read in statements):
                return statements
            self._pause(attempt)
            attempt += 1

    def _move(self, source: int, checksum: int, take: bool) -> None:
        """Sends the state of `source` to all ranks by broadcast. Ranks that already have the state receive the pieces,
        too, and drop them."""
        sending = self._communicator.rank == source
        packed = pack(self._state.as_dict()) if sending else None
        data = _send_bytes(self._communicator, packed.to_bytes() if sending else b"", source)
        if packed is None:
            packed = Packed.from_bytes(data)
        self._state.check_fits(unpack(packed))  # all ranks check, with the same result
        if take:
            packed.allocate(self._communicator.device)
        self._send_tensors(packed.tensors, source)
        if sending or not take:
            return
        state = unpack(packed)
        if checksum_of([state["model"], state["optimizer"]]) != checksum:
            raise WorldOver(f"the state that rank {source} sent was corrupted in transit")
        self._state.load(state)

    def _send_tensors(self, tensors: list[torch.Tensor], source: int) -> None:
        """Sends tensors in pieces: small tensors share a piece, and large ones are split."""
        sending = self._communicator.rank == source
        batch: list[torch.Tensor] = []
        size = 0
        for tensor in tensors:
            flat = (tensor if tensor.is_contiguous() else tensor.contiguous()).reshape(-1).view(torch.uint8)
            if not tensor.is_contiguous() and not sending:
                raise RingmasterError("a tensor to receive into is not contiguous")
            for piece in flat.split(_PIECE_BYTES) if flat.numel() else ():
                if size + piece.numel() > _PIECE_BYTES:
                    self._send_batch(batch, source, sending)
                    batch, size = [], 0
                batch.append(piece)
                size += piece.numel()
        self._send_batch(batch, source, sending)

    def _send_batch(self, batch: list[torch.Tensor], source: int, sending: bool) -> None:
        if not batch:
            return
        self._position.enter(Phase.ADOPT, self._pieces)
        self._pieces += 1
        device = self._communicator.device
        if sending:
            joined = torch.cat([piece.to(device) for piece in batch])
            self._communicator.broadcast(joined, source)
            return
        joined = torch.empty(sum(piece.numel() for piece in batch), dtype=torch.uint8, device=device)
        self._communicator.broadcast(joined, source)
        if batch[0].is_meta:
            return
        at = 0
        for piece in batch:
            piece.copy_(joined[at:at + piece.numel()])
            at += piece.numel()


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word


def compare_texts(communicator: Communicator, text: str, fingerprints: Sequence[float], advice: str = "") -> None:
    """Compares the texts of all ranks, given the texts' fingerprints. Every rank must call it. If texts differ, raises
    a UserError on all ranks. The error names the first rank whose text differs, and the difference."""
    other = next((rank for rank, one in enumerate(fingerprints) if one != fingerprints[0]), None)
    if other is None:
        return
    of_first = _send_bytes(communicator, text.encode(), 0).decode("utf-8", "replace")
    of_other = _send_bytes(communicator, text.encode(), other).decode("utf-8", "replace")
    lines = itertools.zip_longest(of_first.split("\n"), of_other.split("\n"), fillvalue="nothing")
    ours, theirs = next(((a, b) for a, b in lines if a != b), ("a text", "a different text"))
    raise UserError(f"ranks differ: rank 0 has '{ours}' where rank {other} has '{theirs}'; run the same script with the "
                    "same arguments and data on every rank" + advice)


def _send_bytes(communicator: Communicator, data: bytes, source: int) -> bytes:
    """Returns `data` of rank `source` on every rank. Raises UserError on every rank if `data` exceeds _TEXT_BYTES."""
    device = communicator.device
    length = torch.tensor([len(data)], dtype=torch.int64, device=device)
    communicator.broadcast(length, source)
    if not 0 <= int(length) <= _TEXT_BYTES:
        raise UserError(f"the state of rank {source} has {int(length)} bytes of names and plain values, more than "
                        f"{_TEXT_BYTES >> 20} MiB; keep less in job.state and store numbers in tensors")
    if communicator.rank == source:
        buffer = torch.frombuffer(bytearray(data), dtype=torch.uint8).to(device) if data else None
    else:
        buffer = torch.empty(int(length), dtype=torch.uint8, device=device)
    if buffer is None or buffer.numel() == 0:
        return b""
    for piece in buffer.split(_PIECE_BYTES):
        communicator.broadcast(piece, source)
    return buffer_of(buffer.cpu()).tobytes()
