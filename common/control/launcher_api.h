#pragma once

// The API between the operator and a job's launcher, served over HTTPS on kApiPort of the launcher
// Pod's address:
//
//   PUT /v1/order     body Order           -> 200 LauncherStatus, 409 when an order with a higher
//                                             stamp was seen
//   GET /v1/status                         -> 200 LauncherStatus
//   GET /metrics                        -> 200 the ranks' times, in Prometheus' text format
//
// Each body contains its writer's protocol version; see README.md, "Versions", for how bodies may
// change. "/v1" changes only if a change would break these rules.
//
// All requests require "Authorization: Bearer <operator-token>"; without it, the launcher answers
// 401 with an empty body. Bodies are JSON. The launcher sends at most MaxStatusBytes() and receives
// at most kMaxOrderBytes. An order lists its workers in rows of [Pod UID, index, node]; the Pod
// names' common prefix and each node name appear only once.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/control/membership.h"
#include "common/control/reasons.h"

namespace ringmaster::control {

// Increased with each addition that the other side has to know about. A peer that does not send a
// version speaks the first version.
inline constexpr int kApiVersion = 1;
inline constexpr int kFirstApiVersion = 1;

// Orders have stamps so that a paused former leader cannot undo the orders of its successor. The
// launcher refuses lower stamps.
struct OrderStamp {
  int64_t leader_term = 0;  // term of the operator that sent it; higher than any earlier leader's
  int64_t generation = 0;   // metadata.generation of the TrainingJob

  friend auto operator<=>(const OrderStamp&, const OrderStamp&) = default;
};

struct DesiredWorker {
  std::string pod_uid;
  std::string pod;
  std::string node;  // empty until scheduled
  int index = 0;
};

// The desired workers. Every order is complete; the launcher determines what changed.
struct Order {
  OrderStamp stamp;
  std::vector<DesiredWorker> workers;
  int replicas = 1;      // desired number of workers; `workers` omits Pods that do not exist yet
  int min_replicas = 1;  // after a grace period, training may start with this many workers;
                         // a running job pauses with fewer
  std::vector<std::string>
      dead;  // UIDs of Pods that certainly ended: container terminated, Pod or Node object gone
  bool checkpoint = false;  // whether to take an unscheduled checkpoint, to keep completed steps
  int version = kApiVersion;
};

// The launcher's current activity, for users and the operator's conditions. kAdopting: a new
// launcher learns from the agents which world is running. kForming: members change, ranks keep
// their state. kPaused: too few members or no quorum (pause_reason), ranks keep their state.
enum class LauncherPhase {
  kWaitingForOrder,
  kWaitingForAgents,
  kStarting,
  kRunning,
  kStopping,
  kFinished,
  kAdopting,
  kForming,
  kPaused
};

const char* ToString(LauncherPhase phase);

struct WorkerReport {
  std::string pod_uid;
  bool ready = false;   // whether it is connected and passed its preflight checks
  bool member = false;  // whether it is in the current epoch
  bool drained =
      false;  // neither the worker nor its data is needed any more, so its Pod can be deleted
  bool fenced = false;  // it is never admitted again; another Pod takes its place
  std::vector<PreflightFault> faults;
};

// The latest recovery: training continued after members were lost, or a program in mode Restart was
// restarted because its world changed.
struct Recovery {
  Epoch epoch;        // the new epoch, in which training continued
  std::string cause;  // kCauseRankKilled, ...
  std::string pod;    // Pod of the first lost member
  std::string node;
  int64_t detected_millis = 0;  // time from the last sign of life to the declaration of the loss
  int64_t resumed_millis = 0;   // time from the declaration to the new epoch's first committed step
  int64_t steps_lost = 0;
  bool from_start = false;  // whether the program was restarted (mode Restart)
  int64_t ran_millis = 0;   // how long the program had run before the restart; 0: unknown
};

// A rank whose part of a step takes much longer than its peers' parts (straggler_watch.h).
struct Straggler {
  std::string pod_uid{};
  std::string pod{};
  std::string node{};
  int rank = 0;
  double step_millis = 0;    // the rank's time per step, without waiting for other ranks
  double median_millis = 0;  // the median of this time among the ranks of its world
  int64_t for_seconds = 0;   // how long the rank has been this slow
};
inline constexpr std::size_t kMaxStragglers = 16;

// State that currently cannot be saved or restored as the job requests. Training continues.
struct ProtectionFault {
  std::string what;  // "checkpoint", "snapshot", "copy" or "restore"
  std::string pod;
  std::string message;
};

// Values of LauncherStatus::started_by: the program that starts the ranks.
inline constexpr char kByMpirun[] = "Mpirun";
inline constexpr char kByAgents[] = "Agents";
// Values of LauncherStatus::launch_agent: how mpirun reaches the workers.
inline constexpr char kLaunchBySsh[] = "SSH";
inline constexpr char kLaunchByAgent[] = "Agent";

struct LauncherStatus {
  int64_t term = 0;
  Epoch epoch;
  LauncherPhase phase = LauncherPhase::kWaitingForOrder;
  bool training_ended = false;  // whether ranks that have completed the last step may still run
  OrderStamp last_order;
  int ordered = 0;           // the number of workers in last_order
  int world_size = 0;        // the number of ranks in the current epoch, 0 while none runs
  std::string started_by;    // kByMpirun or kByAgents, once known
  std::string launch_agent;  // kLaunchBySsh or kLaunchByAgent, once mpirun has started
  std::vector<WorkerReport> workers;
  std::optional<Progress> progress;
  std::optional<Recovery> last_recovery;
  std::string pause_reason;  // kPauseNoQuorum, ...; set while kPaused
  std::optional<CheckpointReport> checkpoint;
  std::optional<Beginning> beginning;
  std::vector<ProtectionFault> unprotected;  // at most kMostFaults (checkpoint_tracker.h)
  std::vector<RankExit> failures;  // failures that did not end the job; at most the last 16
  std::string message;  // what the launcher waits for, and consecutive crashes; empty: neither
  std::vector<Straggler> stragglers;  // slowest first, at most kMaxStragglers
  // How many times in a row, under this launcher, ranks were killed or ended while loading, without
  // a new committed step.
  int crashes = 0;
  int version = kApiVersion;
};

// The maximum size in bytes of a status that the operator reads, given the number of ordered
// workers.
constexpr std::size_t MaxStatusBytes(std::size_t ordered_workers) {
  return (64 << 10) + 256 * ordered_workers;
}

// Room for kMaxRanks workers, each on a node whose name has the maximum length.
inline constexpr std::size_t kMaxOrderBytes = 8 << 20;

std::string EncodeOrder(const Order& order);
Result<Order> DecodeOrder(std::string_view text);
std::string EncodeLauncherStatus(const LauncherStatus& status);
Result<LauncherStatus> DecodeLauncherStatus(std::string_view text);

}  // namespace ringmaster::control
