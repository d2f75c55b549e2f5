#pragma once

// The messages between agent and launcher, sent over TLS; messages.h defines the framing. The agent
// also relays the messages between its ranks and the launcher (rank_agent_messages.h).

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/control/membership.h"
#include "common/control/protocol_version.h"

namespace ringmaster::control {

// --- agent -> launcher

// The first line of every connection. The launcher answers Refused if the token or job is wrong.
struct AgentHello {
  int protocol = kProtocolVersion;
  std::string token;
  std::string job_uid;
  std::string pod_uid;
  std::string pod;
  std::string node;
  int worker_index = 0;
  int slots = 1;
  std::string nonce;    // unique for each start of the agent process
  Epoch highest_epoch;  // the highest accepted epoch; the agent refuses lower epochs
};

// Values of PreflightFault::check that matter only if mpirun starts the ranks: sshd cannot be used,
// sshd does not keep running, and mpirun's own daemon is missing.
inline constexpr char kCheckSshd[] = "sshd";
inline constexpr char kCheckSshdStart[] = "sshd-start";
inline constexpr char kCheckMpi[] = "mpi";
// Whether mpirun needs this check only if it reaches the workers over ssh.
inline bool OnlySshNeeds(std::string_view check) {
  return check == kCheckSshd || check == kCheckSshdStart;
}
inline bool OnlyMpirunNeeds(std::string_view check) {
  return OnlySshNeeds(check) || check == kCheckMpi;
}
// The name of the check that fails if only mpirun can start the program.
inline constexpr char kCheckMpiProgram[] = "mpi-program";
// Whether the fault matters depends on what starts the ranks, which only the launcher knows.
inline bool DependsOnTheStarter(std::string_view check) {
  return OnlyMpirunNeeds(check) || check == kCheckMpiProgram;
}

// The worker has finished its preflight checks and its preparation (sshd, data cache); `faults`
// says what failed. Sent once after Welcome, and again on each change.
struct AgentReady {
  std::string address;  // this worker's address for the launcher and other workers
  int ssh_port = 0;
  std::vector<PreflightFault> faults;  // empty if the worker is ready
  std::map<std::string, std::string>
      versions;  // versions of "ringmaster", "openmpi", "libtorch", ...; compared across workers
};

// Sent periodically in both directions.
struct Heartbeat {
  // Sent by the launcher: the agent's new heartbeat interval; 0: unchanged. The interval grows with
  // the number of workers.
  int every_millis = 0;
};

// The progress of copying data into the worker's memory volume (spec.dataCache). Sent once the size
// of the data is known, then every few seconds while data is copied, and after every Welcome, until
// AgentReady is sent.
struct DataCacheProgress {
  int64_t bytes_done = 0;
  int64_t bytes_total = 0;
};

// The trainer in this slot has loaded its data and model and can join a world. Repeated after every
// Welcome while the trainer runs.
struct RankReady {
  int slot = 0;
  std::string start;  // Member::start
};

// Answers PrepareEpoch: this worker no longer accepts lower epochs, and has asked its ranks to
// leave lower epochs.
struct EpochAccepted {
  Epoch epoch;
};

// Sent after every Welcome if this worker has ranks of a world (mode InPlace): the newest world of
// these ranks, and its members on this worker that still run. A new launcher learns from these
// reports which world to take over, and requests its members from a sender (TellWorld).
// In a direct job, sent after the Welcome of a later launcher if all programs of the world
// completed on this worker; the worker of rank 0 adds the members (protocol.md).
struct WorldReport {
  Epoch epoch;
  std::vector<Member> members;       // all ranks of the world; empty unless requested by TellWorld
  std::vector<std::string> running;  // Member::start of this worker's running members
  bool released = false;             // a launcher has released the ranks of this world
};

// A process that mpirun started has attached to its slot.
struct SlotAttached {
  int64_t cohort = 0;
  int slot = 0;  // local rank on this host
  int mpi_rank = 0;
  int mpi_world_size = 0;
};

// Output of a rank that has no attach process, because its mpirun has ended or the rank joined
// later. The launcher prints it with the rank's tag. Contains whole lines.
struct SlotOutput {
  int slot = 0;
  int rank = -1;
  bool is_stderr = false;
  std::string data;  // bytes; base64 on the wire
};

// A rank ended, or the program of a slot could not be started. In the second case exit_code is 127
// or 80 (exit_codes.h) and last_lines contains the reason.
struct RankExited {
  Epoch epoch;
  RankExit exit;
};

// The positions of this worker's ranks in the epoch, sent with every heartbeat. Lists each rank
// that reports a position (position_page.h) once.
struct RankPositions {
  Epoch epoch;
  std::vector<RankPosition> ranks;
};

// The stacks of a rank that hung, sent before the rank's exit is reported.
struct RankStack {
  int slot = 0;
  std::string start;  // Member::start
  std::string reason;
  std::string text;  // at most kMaxStackBytes
};

// Output of a command that RunCommand started.
struct CommandOutput {
  int64_t id = 0;
  bool is_stderr = false;
  std::string data;  // bytes; base64 on the wire
};

// The command has ended, by itself or because of EndCommand. All of its output was sent before.
struct CommandExited {
  int64_t id = 0;
  int exit_code = -1;
  int signal = 0;
  std::string fault;  // why the command could not be started, as a sentence
};

// The Pod is being terminated (SIGTERM), so the launcher removes it from the world. Later exits of
// the Pod's ranks do not count as failures.
struct AgentLeaving {
  std::string reason;
};

// --- launcher -> agent

struct Welcome {
  int64_t term = 0;
  int heartbeat_millis = 100;
  int protocol = kProtocolVersion;
  int lost_after_millis = 0;  // after this time without a message, the launcher gives up a worker;
                              // 0: an older launcher
};

// The launcher refuses the agent and closes the connection. The agent logs the reason for users.
struct Refused {
  std::string reason;
};

// An epoch is about to form (elastic jobs). The agent no longer accepts lower epochs, asks ranks of
// lower epochs to leave with their state, and answers with EpochAccepted. It ignores epochs below
// the highest that it has accepted, and answers again if the message is repeated.
struct PrepareEpoch {
  Epoch epoch;
};

// Tells members to leave this epoch together after the next step that all of them complete. They
// answer RankAtBoundary. `leaving`: this Pod's ranks will not be in the next epoch, and must first
// hand over the state that only they have.
struct SwitchEpoch {
  Epoch epoch;
  bool leaving = false;
};

// The start gate is open, so the ranks of this epoch may run. Sent to every member's agent. Members
// of an earlier epoch continue in this epoch with their state. Processes in other slots are not
// affected.
struct StartEpoch {
  Epoch epoch;
  int64_t cohort = kStartedByAgents;  // the mpirun that started the processes
  std::vector<Member> members;        // all ranks, ordered by rank
  int full_size = 0;                  // the job's desired number of ranks; 0: unknown
};

// StartEpoch, encoded as the difference from a world that was sent on this connection before
// (world_difference.h). An agent that does not have that world reconnects and gets all members.
struct ChangeEpoch {
  Epoch epoch;
  int64_t cohort = 0;
  Epoch base;                   // the earlier world
  std::vector<RankRange> left;  // ranks of that world that are not in the new world, ascending
  std::vector<Member> joined;   // ordered by rank, after the members that stay
  int full_size = 0;            // as in StartEpoch
};

// Requests the WorldReport of this epoch, with all members, if it is the agent's newest world.
struct TellWorld {
  Epoch epoch;
};

// Tells the agent to end the ranks of all epochs up to this one (SIGTERM, then SIGKILL after the
// grace period) and to report their exits.
struct StopEpoch {
  Epoch epoch;
  int grace_millis = 1000;
};

// This rank blocks the others. The agent reports the rank's stacks (RankStack), kills it and
// reports its exit. The agent does nothing if the slot runs a process with another start.
struct EndStalledRank {
  int slot = 0;
  std::string start;  // Member::start
  std::string reason;
};

// Tells the agent to run a shell command as sshd would, so that mpirun can start its daemon without
// sshd. Sent only to agents that speak kProtocolOfCommands. When this connection ends, the agent
// ends all processes of the command.
struct RunCommand {
  int64_t id = 0;  // unique for each command
  std::string command;
};

// mpirun has ended its ringmaster-rsh. The agent ends the command (SIGTERM, then SIGKILL).
struct EndCommand {
  int64_t id = 0;
};

// The job is over. The agent ends all remaining processes and exits with code 0.
struct Shutdown {};

}  // namespace ringmaster::control
