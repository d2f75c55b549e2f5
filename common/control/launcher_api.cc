#include "common/control/launcher_api.h"

#include <array>

#include "common/control/wire.h"

namespace ringmaster::control {
namespace {

constexpr std::array kPhases = {
    LauncherPhase::kWaitingForOrder, LauncherPhase::kWaitingForAgents, LauncherPhase::kStarting,
    LauncherPhase::kRunning,         LauncherPhase::kStopping,         LauncherPhase::kFinished,
    LauncherPhase::kAdopting,        LauncherPhase::kForming,          LauncherPhase::kPaused};

// A status on the wire: the phase is its name.
struct WireStatus {
  LauncherStatus status;
  std::string phase;
};

}  // namespace

namespace wire {

template <typename A>
void Describe(A& a, typename A::template Ref<OrderStamp> v) {
  a.Field("leaderTerm", v.leader_term);
  a.Field("generation", v.generation);
}

template <typename A>
void Describe(A& a, typename A::template Ref<Order> v) {
  a.Version("version", v.version, kFirstApiVersion);
  a.Field("stamp", v.stamp);
  a.Workers("workers", v.workers);
  a.Field("replicas", v.replicas);
  a.Field("minReplicas", v.min_replicas);
  a.Optional("dead", v.dead);
  a.Optional("checkpoint", v.checkpoint);
}

template <typename A>
void Describe(A& a, typename A::template Ref<WorkerReport> v) {
  a.Field("podUid", v.pod_uid);
  a.Field("ready", v.ready);
  a.Field("member", v.member);
  a.Field("drained", v.drained);
  a.Field("lost", v.lost);
  a.Optional("faults", v.faults);
}

template <typename A>
void Describe(A& a, typename A::template Ref<Recovery> v) {
  a.Field("epoch", v.epoch);
  a.Field("cause", v.cause);
  a.Optional("pod", v.pod);
  a.Optional("node", v.node);
  a.Optional("detectedMillis", v.detected_millis);
  a.Optional("resumedMillis", v.resumed_millis);
  a.Optional("stepsLost", v.steps_lost);
  a.Optional("fromStart", v.from_start);
  a.Optional("ranMillis", v.ran_millis);
}

template <typename A>
void Describe(A& a, typename A::template Ref<Straggler> v) {
  a.Field("podUid", v.pod_uid);
  a.Optional("pod", v.pod);
  a.Optional("node", v.node);
  a.Field("rank", v.rank);
  a.Field("stepMillis", v.step_millis);
  a.Field("medianMillis", v.median_millis);
  a.Optional("forSeconds", v.for_seconds);
}

template <typename A>
void Describe(A& a, typename A::template Ref<ProtectionFault> v) {
  a.Field("what", v.what);
  a.Optional("pod", v.pod);
  a.Optional("message", v.message);
}

template <typename A>
void Describe(A& a, typename A::template Ref<WireStatus> v) {
  a.Version("version", v.status.version, kFirstApiVersion);
  a.Field("term", v.status.term);
  a.Field("epoch", v.status.epoch);
  a.Field("phase", v.phase);
  a.Field("lastOrder", v.status.last_order);
  a.Optional("ordered", v.status.ordered);
  a.Field("worldSize", v.status.world_size);
  a.Field("workers", v.status.workers);
  a.Optional("progress", v.status.progress);
  a.Optional("lastRecovery", v.status.last_recovery);
  a.Optional("checkpoint", v.status.checkpoint);
  a.Optional("beginning", v.status.beginning);
  a.Optional("unprotected", v.status.unprotected);
  a.Optional("pauseReason", v.status.pause_reason);
  a.Optional("failures", v.status.failures);
  a.Optional("message", v.status.message);
  a.Optional("stragglers", v.status.stragglers);
  a.Optional("crashes", v.status.crashes);
}

}  // namespace wire

const char* ToString(LauncherPhase phase) {
  switch (phase) {
    case LauncherPhase::kWaitingForOrder:
      return "WaitingForOrder";
    case LauncherPhase::kWaitingForAgents:
      return "WaitingForAgents";
    case LauncherPhase::kStarting:
      return "Starting";
    case LauncherPhase::kRunning:
      return "Running";
    case LauncherPhase::kStopping:
      return "Stopping";
    case LauncherPhase::kFinished:
      return "Finished";
    case LauncherPhase::kAdopting:
      return "Adopting";
    case LauncherPhase::kForming:
      return "Forming";
    case LauncherPhase::kPaused:
      return "Paused";
  }
  return "Unknown";
}

std::string EncodeOrder(const Order& order) { return wire::EncodeDocument(order); }

Result<Order> DecodeOrder(std::string_view text) {
  Result<Order> order = wire::DecodeDocument<Order>(text);
  if (!order.ok()) return order.error().WithContext("reading an order");
  if (order->replicas < 0 || order->min_replicas < 0 || order->min_replicas > order->replicas) {
    return Error{ErrorKind::kInvalid,
                 "while reading an order: replicas and minReplicas break 0 <= minReplicas <= "
                 "replicas"};
  }
  return order;
}

std::string EncodeLauncherStatus(const LauncherStatus& status) {
  return wire::EncodeDocument(WireStatus{status, ToString(status.phase)});
}

Result<LauncherStatus> DecodeLauncherStatus(std::string_view text) {
  Result<WireStatus> decoded = wire::DecodeDocument<WireStatus>(text);
  if (!decoded.ok()) return decoded.error().WithContext("reading a launcher's status");
  // A phase of a newer launcher: the job lives, and neither runs undisturbed nor has it ended.
  decoded->status.phase = LauncherPhase::kForming;
  for (const LauncherPhase phase : kPhases) {
    if (decoded->phase == ToString(phase)) decoded->status.phase = phase;
  }
  return std::move(decoded->status);
}

}  // namespace ringmaster::control
