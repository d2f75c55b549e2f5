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

// First line of every connection. A wrong token or job ends the connection with Refused.
struct AgentHello {
  int protocol = kProtocolVersion;
  std::string token;
  std::string job_uid;
  std::string pod_uid;
  std::string pod;
  std::string node;
  int worker_index = 0;
  int slots = 1;
  std::string nonce;    // new for every start of the agent process
  Epoch highest_epoch;  // the highest it ever accepted; it refuses lower ones
};

// PreflightFault::check of what only mpirun needs: that there is an sshd, that it stays up, and
// mpirun's own daemon.
inline constexpr char kCheckSshd[] = "sshd";
inline constexpr char kCheckSshdStart[] = "sshd-start";
inline constexpr char kCheckMpi[] = "mpi";
// ... and only where it reaches the workers over ssh.
inline bool OnlySshNeeds(std::string_view check) {
  return check == kCheckSshd || check == kCheckSshdStart;
}
inline bool OnlyMpirunNeeds(std::string_view check) {
  return OnlySshNeeds(check) || check == kCheckMpi;
}
// For a program that only mpirun can start.
inline constexpr char kCheckMpiProgram[] = "mpi-program";
// Only the launcher knows whether it is a fault.
inline bool DependsOnTheStarter(std::string_view check) {
  return OnlyMpirunNeeds(check) || check == kCheckMpiProgram;
}

// sshd listens, preflight ran, the trainer is preloaded as far as it goes. Sent once after Welcome,
// again on change.
struct AgentReady {
  std::string address;  // of this worker, as other workers and the launcher reach it
  int ssh_port = 0;
  std::vector<PreflightFault> faults;  // empty: ready
  std::map<std::string, std::string>
      versions;  // "ringmaster", "openmpi", "libtorch", ...; compared across workers
};

// Both ways.
struct Heartbeat {
  // From the launcher: the agent's heartbeat interval from now on; 0: unchanged. The more workers
  // there are, the longer it is.
  int every_millis = 0;
};

// How far the worker's memory volume is filled, while it is (spec.dataCache): once its data was
// measured, then every few seconds while it grows. Again after every Welcome. AgentReady ends
// it.
struct DataCacheProgress {
  int64_t bytes_done = 0;
  int64_t bytes_total = 0;
};

// The trainer in this slot has loaded its data and model and can join a world. Again after every
// Welcome while it runs.
struct RankReady {
  int slot = 0;
  std::string start;  // Member::start
};

// Answers PrepareEpoch: this worker accepts no lower epoch any more, and its ranks have been told
// to leave them.
struct EpochAccepted {
  Epoch epoch;
};

// Sent after every Welcome where ranks in place are in a world: the newest one they were started
// in, and which of this worker's members still run. A new launcher learns from these reports what
// to take over, and asks one of their senders for the members (TellWorld).
struct WorldReport {
  Epoch epoch;
  std::vector<Member> members;       // of all ranks, as it was told them; empty unless asked for
  std::vector<std::string> running;  // Member::start of this worker's living members
};

// A process that mpirun started has attached to its slot.
struct SlotAttached {
  int64_t cohort = 0;
  int slot = 0;  // local rank on this host
  int mpi_rank = 0;
  int mpi_world_size = 0;
};

// Output of a rank without an attach (its mpirun is gone, or it joined later). The launcher prints
// it with the rank's tag. Whole lines.
struct SlotOutput {
  int slot = 0;
  int rank = -1;
  bool is_stderr = false;
  std::string data;  // bytes; base64 on the wire
};

// A rank ended, or a slot's program could not be started (exit_code 127 and the reason in
// last_lines).
struct RankExited {
  Epoch epoch;
  RankExit exit;
};

// The positions of this worker's ranks in the epoch, sent with every heartbeat. Contains only ranks
// that report one (position_page.h), each once.
struct RankPositions {
  Epoch epoch;
  std::vector<RankPosition> ranks;
};

// The stacks of a rank that hung, sent before its exit is reported.
struct RankStack {
  int slot = 0;
  std::string start;  // Member::start
  std::string reason;
  std::string text;  // at most kMaxStackBytes
};

// Output of a command from RunCommand.
struct CommandOutput {
  int64_t id = 0;
  bool is_stderr = false;
  std::string data;  // bytes; base64 on the wire
};

// It has ended, by itself or by EndCommand; what it printed went before.
struct CommandExited {
  int64_t id = 0;
  int exit_code = -1;
  int signal = 0;
  std::string fault;  // why it could not be started, in a sentence
};

// The Pod is going away (SIGTERM): take it out of the world. Ranks that end after this are no
// failures.
struct AgentLeaving {
  std::string reason;
};

// --- launcher -> agent

struct Welcome {
  int64_t term = 0;
  int heartbeat_millis = 100;
  int protocol = kProtocolVersion;
};

// Why the launcher closes the connection: people read it in the agent's log.
struct Refused {
  std::string reason;
};

// An epoch is about to form (elastic jobs): accept no lower one from here on, tell ranks of
// lower ones to leave them with their state, answer EpochAccepted. Ignored below the highest epoch
// accepted; the same one again is answered again.
struct PrepareEpoch {
  Epoch epoch;
};

// Tells members to leave this epoch together after the next step that all of them complete; they
// answer RankAtBoundary. `leaving`: this Pod's ranks will not be in the next epoch, and first hand
// over the state that only they hold.
struct SwitchEpoch {
  Epoch epoch;
  bool leaving = false;
};

// The start gate is open: ranks of this epoch run. Sent to every member's agent. Ranks of an
// earlier epoch that are members continue in this one with their state; processes in other slots
// are not affected.
struct StartEpoch {
  Epoch epoch;
  int64_t cohort = kStartedByAgents;  // of the mpirun that started the processes
  std::vector<Member> members;        // of all ranks, by rank
  int full_size = 0;                  // the ranks that the job wants; 0: not known
};

// StartEpoch, as the difference from a world that this connection was told before
// (world_difference.h). An agent that does not have that one dials again, and is told all of it.
struct ChangeEpoch {
  Epoch epoch;
  int64_t cohort = 0;
  Epoch base;                   // that world
  std::vector<RankRange> left;  // its ranks that are not in this one, rising
  std::vector<Member> joined;   // by rank, after those that stay
  int full_size = 0;            // as StartEpoch has it
};

// Send the WorldReport of this epoch with its members, if that is the newest one.
struct TellWorld {
  Epoch epoch;
};

// End the ranks of all epochs up to this one (SIGTERM, then SIGKILL after the grace period) and
// report their exits.
struct StopEpoch {
  Epoch epoch;
  int grace_millis = 1000;
};

// This rank holds the others up: note where its threads are (RankStack), end it at once and report
// its exit. Nothing happens to another process than the one with this start.
struct EndStalledRank {
  int slot = 0;
  std::string start;  // Member::start
  std::string reason;
};

// mpirun starts its daemon through the agent, without sshd: run this line of a shell, as sshd
// would. To agents that speak kProtocolOfCommands. Whatever still runs of it ends with this
// connection.
struct RunCommand {
  int64_t id = 0;  // new for each
  std::string command;
};

// mpirun has ended its ringmaster-rsh: end the command (SIGTERM, then SIGKILL).
struct EndCommand {
  int64_t id = 0;
};

// The job is over: end what still runs and exit 0.
struct Shutdown {};

}  // namespace ringmaster::control
