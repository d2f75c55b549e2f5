"""Errors, grouped by their consequences, and the exit codes of a rank (common/control/exit_codes.h)."""

from collections.abc import Sequence

EXIT_FAILED = 1  # the rank failed by itself; this counts against the restart limit
EXIT_USER_ERROR = 2  # user error; the rank is not restarted
EXIT_PEER_LOST = 75  # the rank ends because it lost its agent or its peers


class RingmasterError(Exception):
    """Raised if training cannot continue. The message is for the user."""

    exit_code = EXIT_FAILED  # exit code of the process if the error is not caught


class UserError(RingmasterError):
    """Raised for a user error, such as an invalid argument. A retry would fail again."""

    exit_code = EXIT_USER_ERROR


class PeerLost(RingmasterError):
    """Raised if no other world will follow, because the agent is gone or the only world has ended."""

    exit_code = EXIT_PEER_LOST


class WorldOver(RingmasterError):
    """Raised if the current world has ended. The rank keeps its state and waits for the next world. Internal."""

    def __init__(self, reason: str, *, peer: int = -1, told: bool = False):
        super().__init__(reason)
        self.peer = peer  # the rank that could not be reached; -1: unknown
        self.told = told  # the launcher ended the world, so the rank need not report it


class Unavailable(RingmasterError):
    """Raised for a temporary failure; a retry may succeed. Internal."""


def listed(names: Sequence[str], most: int) -> str:
    """Joins names for a message: the first `most` names and the number of the remaining names."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
