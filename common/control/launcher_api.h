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
// All requests require "Authorization: Bearer <operator-token>"; without it, the answer is 401 with
// no content. Bodies are JSON. The launcher sends at most MaxStatusBytes() and receives at most
// kMaxOrderBytes. An order lists its workers in rows of [Pod UID, index, node]; the common prefix
// of the Pod names and the node names appear only once.

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

// Raised with each addition that the other side has to know of. A peer that says none speaks the
// first.
inline constexpr int kApiVersion = 1;
inline constexpr int kFirstApiVersion = 1;

// Orders are stamped so that a paused former leader cannot undo its successor: the launcher refuses
// lower stamps.
struct OrderStamp {
  int64_t leader_term = 0;  // of the operator that gave it: higher than every leader's before it
  int64_t generation = 0;   // metadata.generation of the TrainingJob

  friend auto operator<=>(const OrderStamp&, const OrderStamp&) = default;
};

struct DesiredWorker {
  std::string pod_uid;
  std::string pod;
  std::string node;  // empty until scheduled
  int index = 0;
};

// The members the operator wants. Complete each time; the launcher compares with what it has.
struct Order {
  OrderStamp stamp;
  std::vector<DesiredWorker> workers;
  int replicas = 1;      // number of workers; `workers` may lack Pods not created yet
  int min_replicas = 1;  // training starts with fewer than `replicas` only at or above this, after
                         // a grace period; below it a running job pauses
  std::vector<std::string>
      dead;  // Pod UIDs whose end is certain: container terminated, Pod or Node object gone
  bool checkpoint = false;  // what is done by now is to be kept: a checkpoint is taken out of turn
  int version = kApiVersion;
};

// The launcher's current activity, for users and the operator's conditions. kAdopting: a restarted
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
  bool ready = false;   // connected, preflight passed
  bool member = false;  // in the current epoch
  bool drained =
      false;  // it is no longer wanted, and nothing of it is needed any more: its Pod may go
  bool fenced = false;  // never let in again: its place goes to another Pod
  std::vector<PreflightFault> faults;
};

// The last time that training continued without members that it had before, or that a program in
// mode Restart was restarted because its world changed.
struct Recovery {
  Epoch epoch;        // the one that went on
  std::string cause;  // kCauseRankKilled, ...
  std::string pod;    // of the first member lost
  std::string node;
  int64_t detected_millis = 0;  // last sign of life → loss declared
  int64_t resumed_millis = 0;   // loss declared → first step of the new epoch committed
  int64_t steps_lost = 0;
  bool from_start = false;  // the program began again
  int64_t ran_millis = 0;   // how long it had run then; 0: not known
};

// A rank whose own part of a step takes much longer than its peers' (straggler_watch.h).
struct Straggler {
  std::string pod_uid{};
  std::string pod{};
  std::string node{};
  int rank = 0;
  double step_millis = 0;    // its own part of a step: without waiting for other ranks
  double median_millis = 0;  // the same, of the ranks of its world
  int64_t for_seconds = 0;   // how long it has been so slow
};
inline constexpr std::size_t kMaxStragglers = 16;

// What cannot be saved at present although the job requests it; training continues.
struct ProtectionFault {
  std::string what;  // "checkpoint", "snapshot", "copy" or "restore"
  std::string pod;
  std::string message;
};

// The program that starts the ranks.
inline constexpr char kByMpirun[] = "Mpirun";
inline constexpr char kByAgents[] = "Agents";
// ... and how mpirun reaches the workers.
inline constexpr char kLaunchBySsh[] = "SSH";
inline constexpr char kLaunchByAgent[] = "Agent";

struct LauncherStatus {
  int64_t term = 0;
  Epoch epoch;
  LauncherPhase phase = LauncherPhase::kWaitingForOrder;
  OrderStamp last_order;
  int ordered = 0;           // workers that this order names
  int world_size = 0;        // ranks of the current epoch, 0 while none runs
  std::string started_by;    // kByMpirun or kByAgents, once it is known
  std::string launch_agent;  // kLaunchBySsh or kLaunchByAgent, once mpirun has been started
  std::vector<WorkerReport> workers;
  std::optional<Progress> progress;
  std::optional<Recovery> last_recovery;
  std::string pause_reason;  // while kPaused: kPauseNoQuorum, ...
  std::optional<CheckpointReport> checkpoint;
  std::optional<Beginning> beginning;
  std::vector<ProtectionFault> unprotected;  // a few of them
  std::vector<RankExit> failures;  // of ranks while the job went on, newest last, at most 16
  std::string message;  // what it waits for, in a sentence; empty when there is nothing to wait for
  std::vector<Straggler> stragglers;  // slowest first, at most kMaxStragglers
  // How many times in a row, under this launcher, ranks were killed, or ended while loading,
  // without a new committed step.
  int crashes = 0;
  int version = kApiVersion;
};

// The size of a status that the operator reads, by the number of ordered
// workers.
constexpr std::size_t MaxStatusBytes(std::size_t ordered_workers) {
  return (64 << 10) + 256 * ordered_workers;
}

// Room for kMaxRanks workers, each on a node whose name is as long as it may be.
inline constexpr std::size_t kMaxOrderBytes = 8 << 20;

std::string EncodeOrder(const Order& order);
Result<Order> DecodeOrder(std::string_view text);
std::string EncodeLauncherStatus(const LauncherStatus& status);
Result<LauncherStatus> DecodeLauncherStatus(std::string_view text);

}  // namespace ringmaster::control
