"""Errors, grouped by their consequences, and the exit codes of a rank (common/control/exit_codes.h)."""

from collections.abc import Sequence

EXIT_FAILED = 1  # the rank failed by itself: counts against the restart limit
EXIT_USER_ERROR = 2  # the user's mistake: not tried again
EXIT_PEER_LOST = 75  # the rank ends because it lost its agent or its peers


class RingmasterError(Exception):
    """Training cannot continue. The message is for the user."""

    exit_code = EXIT_FAILED  # of the process, where nobody catches the error


class UserError(RingmasterError):
    """A user error, such as an invalid argument. A retry would fail again."""

    exit_code = EXIT_USER_ERROR


class PeerLost(RingmasterError):
    """No other world will follow: the agent is gone or the only world has ended."""

    exit_code = EXIT_PEER_LOST


class WorldOver(RingmasterError):
    """The current world has ended; the rank keeps its state and waits for the next one. Internal."""

    def __init__(self, reason: str, *, peer: int = -1, told: bool = False):
        super().__init__(reason)
        self.peer = peer  # the rank that could not be reached; -1: unknown which
        self.told = told  # the launcher ended it, so that it needs no report


class Unavailable(RingmasterError):
    """A temporary failure; a retry may succeed. Internal."""


def listed(names: Sequence[str], most: int) -> str:
    """Joins names for a message: the first `most` names and the number of the others."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
