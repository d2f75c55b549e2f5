#pragma once

// The exit codes of ranks, agents and launchers, which are API as the words of reasons.h are.
// docs/render.py renders docs/reasons.md from both.

namespace ringmaster::control {

// --- Exit codes
//
// 0 means that all went well. A process that a signal ended counts as 128 and its number. The
// launcher's container ends with the code of the rank that failed the job. `spec.runPolicy.restart`
// says which other codes fail the job at once or do not count.

// A rank: it failed by itself, which counts against the restart limit. Agent or launcher: it could
// not do its work, and said why in its log and termination message.
inline constexpr int kExitFailed = 1;
// A rank: the user's error, for example a wrong argument. It is not tried again.
inline constexpr int kExitUserError = 2;
// A rank: it ends because it lost another one. The launcher looks for the one that failed first.
inline constexpr int kExitPeerLost = 75;
// A rank: its GPU does not work, whatever the program does. Its agent leaves the job and ends with
// the same code, so that its Pod is replaced. It does not count against the restart limit.
inline constexpr int kExitDeviceUnhealthy = 76;
// mpirun started a process on a host that is not one of the job's workers: WorldMismatch.
inline constexpr int kExitNoAgent = 79;
// A rank: its machine could not start it now, for example because MASTER_PORT is in use there. The
// next world is another try, and it counts as if a signal had ended it.
inline constexpr int kExitNotStarted = 80;
// A rank: the program does not exist or cannot be executed, as a shell says it.
inline constexpr int kExitCannotStart = 127;
// Agent or launcher: it was told to end (SIGTERM) before the job was over.
inline constexpr int kExitTerminated = 143;

}  // namespace ringmaster::control
