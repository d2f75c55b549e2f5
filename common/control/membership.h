#pragma once

// The types of membership (ADR 3) that all messages share: epochs, members, progress and exits.
// Plain values.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ringmaster::control {

// One world of ranks. Ordered by term first: a launcher Pod's term is raised before the Pod exists,
// so a newer launcher's epochs are always higher. {0, 0} is "none yet".
struct Epoch {
  int64_t term = 0;
  int64_t number = 0;

  friend auto operator<=>(const Epoch&, const Epoch&) = default;
};

// The most ranks that a job may have: what is bounded by it is bounded everywhere, from the spec to
// a line of messages.h.
inline constexpr int kMaxRanks = 16384;

// A rank process in an epoch, and the rank it has there. Who it is: (Pod UID, slot, start); a
// process that was started again in the same slot is another member. Ranks are 0 … world size - 1,
// oldest member first.
struct Member {
  std::string pod_uid;
  std::string pod;      // Pod name, for people
  std::string node;     // node name, for people
  std::string address;  // where the worker's ranks listen for other ranks
  int slot = 0;         // 0 … slots - 1 within the worker
  std::string start;    // new for every start of a rank process; empty in a direct job
  int rank = 0;
};

// Instead of a cohort of mpirun's processes: the agents start the program themselves.
inline constexpr int64_t kStartedByAgents = 0;

// Ranks first … first + count - 1.
struct RankRange {
  int first = 0;
  int count = 0;

  friend bool operator==(const RankRange&, const RankRange&) = default;
};

// The activity of a rank, in the order of a world and its steps.
enum class RankPhase {
  kWait,      // for a world
  kConnect,   // with the other ranks of a new one, and saying what state it has
  kAdopt,     // takes the state over, or sends it
  kData,      // of the step
  kCompute,   // forward and backward
  kReduce,    // waits for the other ranks' gradients
  kUpdate,    // of the parameters
  kEvaluate,  // after the last step; keeps the state: what may take long by itself
  kDone       // waits for the release of all
};
inline constexpr std::array<const char*, 9> kRankPhaseNames = {
    "wait", "connect", "adopt", "data", "compute", "reduce", "update", "evaluate", "done"};

// The progress of a rank that connects in several stages (NCCL).
enum class ConnectStage {
  kBegin,
  kMeet,    // agrees with the other ranks on how
  kMake,    // its communicator, together with them
  kFinish,  // has it, and lets go of the one before
  kReady    // the first collective may begin
};
inline constexpr std::array<const char*, 5> kConnectStageTexts = {
    "", "agrees with its peers on the method", "creates its communicator",
    "releases the previous communicator", "has created its communicator"};

enum class CollectiveKind {
  kNone,
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBroadcast,
  kBarrier,
  kConfirmation
};
inline constexpr std::array<const char*, 8> kCollectiveNames = {
    "none",       "allreduce", "reduce-scatter", "allgather",
    "all-to-all", "broadcast", "barrier",        "confirmation"};

// How many collectives of a world a rank has reached, if it counts them (on GPUs). All ranks begin
// the same ones in the same order.
struct CollectiveCounts {
  int64_t launched = -1;  // its host gave them to the device; -1: it does not count
  int64_t begun = -1;     // its device has come to them; -1: not known at the moment
  CollectiveKind kind = CollectiveKind::kNone;  // of the newest begun

  friend bool operator==(const CollectiveCounts&, const CollectiveCounts&) = default;
};

// The position of a rank, as its agent read it. Times are durations until then.
struct RankPosition {
  int rank = 0;
  int slot = 0;
  bool entered = false;  // it stands in the epoch it is reported for, not in an earlier one
  bool stopped = false;  // its process is held by a signal or a debugger
  int64_t step = 0;      // steps applied
  int bucket = 0;        // of the step, or piece of the state, that it waits for; a ConnectStage
                         // while it connects
  RankPhase phase = RankPhase::kWait;
  int peer = -1;                // the rank it waits for, where it is known
  int64_t still_millis = 0;     // since it came there
  int64_t step_micros = 0;      // its newest step, from begin to update; 0: none yet
  int64_t own_micros = 0;       // the same without waiting for other ranks
  int64_t applied_millis = -1;  // since its newest step in this world; -1: none yet
  CollectiveCounts collectives{};
};

// For a stack that travels, or stands in a record.
inline constexpr std::size_t kMaxStackBytes = 3072;

// The kernel killed a process for lack of memory.
struct OutOfMemory {
  int64_t limit_bytes = 0;  // of its container; 0: it has none, so that its node had too little
  int64_t peak_bytes = 0;   // the most that the container held; 0: unknown
};

// How a rank ended. Exactly one of exit_code (0 … 255) and signal (> 0) says why; the other is -1
// or 0.
struct RankExit {
  int rank = -1;  // -1: it never had one
  std::string pod_uid;
  std::string pod;
  std::string node;
  int slot = 0;
  std::string start;  // Member::start of the process
  int exit_code = -1;
  int signal = 0;
  std::vector<std::string> last_lines;  // what it printed last, both streams, oldest first; at most
                                        // 10 lines of 300 bytes
  std::string stack{};  // where its threads were, of a rank that was ended because it hung; at most
                        // kMaxStackBytes
  std::optional<OutOfMemory> out_of_memory{};  // what it was killed for

  bool Clean() const { return exit_code == 0 && signal == 0; }
  // It did not end by itself.
  bool Killed() const { return signal > 0 || out_of_memory.has_value(); }
};

// The training progress after rank 0's last committed step.
struct Progress {
  int64_t step = 0;         // steps committed so far
  int64_t total_steps = 0;  // 0: unknown
  double samples_per_second = 0;
  double loss = 0;
  double accuracy = -1;  // held-out accuracy in [0, 1], -1 until measured
};

// The newest complete checkpoint.
struct CheckpointReport {
  Epoch epoch;  // of the world that completed it
  int64_t step = 0;
  int64_t age_millis = 0;  // since the launcher heard of it
  int64_t bytes = 0;       // held by all complete ones that are kept
};

// With what a job's first world began, where there is something to say of it.
struct Beginning {
  int64_t step = 0;     // of the state; 0: of nothing
  std::string message;  // for people: a sentence
};

// One preflight check that failed on a worker: what is wrong and what to do, one line each.
struct PreflightFault {
  std::string check;  // for example "sshd"
  std::string message;
};

}  // namespace ringmaster::control
