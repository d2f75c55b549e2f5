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

// Identifies one world of ranks. Ordered by term first. A launcher Pod's term is raised before the
// Pod exists, so a newer launcher's epochs are always higher. {0, 0} means "none yet".
struct Epoch {
  int64_t term = 0;
  int64_t number = 0;

  friend auto operator<=>(const Epoch&, const Epoch&) = default;
};

// The maximum number of ranks of a job. All limits that depend on this number, from the spec to the
// line length in messages.h, use this constant.
inline constexpr int kMaxRanks = 16384;

// A rank process in an epoch, and its rank there. (Pod UID, slot, start) identifies the member: a
// process that is restarted in the same slot is another member. Ranks are 0 … world size - 1,
// ordered from the oldest member to the newest.
struct Member {
  std::string pod_uid;
  std::string pod;      // Pod name, for messages
  std::string node;     // node name, for messages
  std::string address;  // address at which the worker's ranks accept connections of other ranks
  int slot = 0;         // 0 … slots - 1 within the worker
  std::string start;    // AgentHello::nonce, '-' and the number of the start of a rank process by
                        // this agent; empty in a direct job
  int rank = 0;
};

// The cohort number of ranks that the agents start themselves, without mpirun.
inline constexpr int64_t kStartedByAgents = 0;

// The ranks first … first + count - 1.
struct RankRange {
  int first = 0;
  int count = 0;

  friend bool operator==(const RankRange&, const RankRange&) = default;
};

// What a rank is doing, in the order of entering a world and running a step.
enum class RankPhase {
  kWait,      // waits for a world
  kConnect,   // connects to the ranks of a new world and reports its state
  kAdopt,     // receives the training state, or sends it
  kData,      // loads the data of the step
  kCompute,   // runs forward and backward
  kReduce,    // waits for the other ranks' gradients
  kUpdate,    // updates the parameters
  kEvaluate,  // evaluates, or saves the state; this may take long
  kDone       // waits until all ranks are released
};
inline constexpr std::array<const char*, 9> kRankPhaseNames = {
    "wait", "connect", "adopt", "data", "compute", "reduce", "update", "evaluate", "done"};

// The progress of a rank that connects in several stages (NCCL).
enum class ConnectStage {
  kBegin,
  kMeet,    // agrees with the other ranks on the method
  kMake,    // creates its communicator together with the other ranks
  kFinish,  // has its communicator, and releases the previous one
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

// The number of collectives of a world that a rank has reached, if the rank counts them (on GPUs).
// All ranks start the same collectives in the same order.
struct CollectiveCounts {
  int64_t launched = -1;  // number of collectives enqueued on the device; -1: not counted
  int64_t begun = -1;     // number of collectives that the device has started; -1: unknown now
  CollectiveKind kind = CollectiveKind::kNone;  // kind of the last collective started by the device

  friend bool operator==(const CollectiveCounts&, const CollectiveCounts&) = default;
};

// The position of a rank, as read by its agent. Durations end at the time of reading.
struct RankPosition {
  int rank = 0;
  int slot = 0;
  bool entered = false;  // whether the rank is in the reported epoch, not in an earlier one
  bool stopped = false;  // whether a signal or a debugger has stopped its process
  int64_t step = 0;      // number of applied steps
  int bucket = 0;        // the bucket or piece of the state for which the rank waits;
                         // while it connects: a ConnectStage
  RankPhase phase = RankPhase::kWait;
  int peer = -1;                // the rank for which this rank waits, if known
  int64_t still_millis = 0;     // time since it reached this position
  int64_t step_micros = 0;      // duration of its latest step, from start to update; 0: none yet
  int64_t own_micros = 0;       // step_micros without the time spent waiting for other ranks
  int64_t applied_millis = -1;  // time since it applied its newest step in this world; -1: none
  CollectiveCounts collectives{};
};

// The maximum size of a stack in a message or a record.
inline constexpr std::size_t kMaxStackBytes = 3072;

// The kernel killed a process because memory ran out.
struct OutOfMemory {
  int64_t limit_bytes = 0;  // limit of the process's container; 0: none, the node ran out of memory
  int64_t peak_bytes = 0;   // the peak memory use of the container; 0: unknown
};

// How a rank ended. If it exited, exit_code is 0 … 255 and signal is 0. If a signal killed it,
// signal is > 0 and exit_code is -1.
struct RankExit {
  int rank = -1;  // -1: the process never had a rank
  std::string pod_uid;
  std::string pod;
  std::string node;
  int slot = 0;
  std::string start;  // Member::start of the process
  int exit_code = -1;
  int signal = 0;
  std::vector<std::string> last_lines;  // last lines of its output, of both streams, oldest first;
                                        // at most 10 lines of 300 bytes
  std::string stack{};  // the stacks of its threads, if it was ended because it hung;
                        // at most kMaxStackBytes
  std::optional<OutOfMemory> out_of_memory{};  // set if it was killed because memory ran out

  bool Clean() const { return exit_code == 0 && signal == 0; }
  // Whether it was killed, by a signal or because memory ran out.
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
  Epoch epoch;  // the world that completed it
  int64_t step = 0;
  int64_t age_millis = 0;  // time since the rank reported it to the launcher
  int64_t bytes = 0;       // total size of all complete checkpoints that are kept
};

// The state from which a job's first world began, if users should know something about it.
struct Beginning {
  int64_t step = 0;     // step of the state; 0: training began without a state
  std::string message;  // a sentence for users
};

// One failed preflight check of a worker. The message says what is wrong and what to do.
struct PreflightFault {
  std::string check;  // for example "sshd"
  std::string message;
};

}  // namespace ringmaster::control
