#pragma once

// The exit codes of ranks, agents and launchers. They are part of the API, like the values in
// reasons.h. docs/render.py renders docs/reasons.md from both headers.

namespace ringmaster::control {

// --- Exit codes
//
// 0 means success. A process that was killed by a signal has the exit code 128 plus the signal's
// number. The launcher's container exits with the code of the rank that failed the job.
// `spec.runPolicy.restart` lists other codes that fail the job at once or are ignored.

// Rank: it failed, and the failure counts against the restart limit. Agent or launcher: it failed
// and wrote the reason to its log and termination message.
inline constexpr int kExitFailed = 1;
// Rank: a user error, for example an invalid argument. The rank is not restarted.
inline constexpr int kExitUserError = 2;
// Rank: it exits because it lost a peer. The launcher looks for the rank that failed first.
inline constexpr int kExitPeerLost = 75;
// Rank: its GPU does not work with any program. The rank's agent leaves the job and exits with the
// same code, so that its Pod is replaced. The exit does not count against the restart limit.
inline constexpr int kExitDeviceUnhealthy = 76;
// mpirun started a process on a host that is not one of the job's workers: WorldMismatch.
inline constexpr int kExitNoAgent = 79;
// Rank: its agent could not start it, for example because MASTER_PORT is in use. The start is
// retried, and counts like a kill by a signal. A program that exits with 80 failed, as with code 1.
inline constexpr int kExitNotStarted = 80;
// Rank: the program does not exist or cannot be executed, as in a shell.
inline constexpr int kExitCannotStart = 127;
// Agent or launcher: it received SIGTERM before the job was over.
inline constexpr int kExitTerminated = 143;

}  // namespace ringmaster::control
