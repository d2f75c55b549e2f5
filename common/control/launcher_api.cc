#include "common/control/launcher_api.h"

#include <array>

#include "common/control/wire.h"
#include "common/control/workers_wire.h"
#include "common/json/fields.h"
#include "common/json/forms.h"

namespace ringmaster::control {
namespace {

// Names of the phases, in the order of the enum.
constexpr std::array kPhaseNames = {"WaitingForOrder", "WaitingForAgents", "Starting",
                                    "Running",         "Stopping",         "Finished",
                                    "Adopting",        "Forming",          "Paused"};

}  // namespace

void Describe(auto& a, Is<OrderStamp> auto& v) {
  a.Field("leaderTerm", v.leader_term);
  a.Field("generation", v.generation);
}

void Describe(auto& a, Is<Order> auto& v) {
  a.Version("version", v.version, kFirstApiVersion);
  a.Field("stamp", v.stamp);
  a.Field("workers", v.workers, InRows());
  a.Field("replicas", v.replicas);
  a.Field("minReplicas", v.min_replicas);
  a.Optional("dead", v.dead);
  a.Optional("checkpoint", v.checkpoint);
}

void Describe(auto& a, Is<WorkerReport> auto& v) {
  a.Field("podUid", v.pod_uid);
  a.Field("ready", v.ready);
  a.Field("member", v.member);
  a.Field("drained", v.drained);
  a.Field("fenced", v.fenced);
  a.Optional("faults", v.faults);
}

void Describe(auto& a, Is<Recovery> auto& v) {
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

void Describe(auto& a, Is<Straggler> auto& v) {
  a.Field("podUid", v.pod_uid);
  a.Optional("pod", v.pod);
  a.Optional("node", v.node);
  a.Field("rank", v.rank);
  a.Field("stepMillis", v.step_millis);
  a.Field("medianMillis", v.median_millis);
  a.Optional("forSeconds", v.for_seconds);
}

void Describe(auto& a, Is<ProtectionFault> auto& v) {
  a.Field("what", v.what);
  a.Optional("pod", v.pod);
  a.Optional("message", v.message);
}

void Describe(auto& a, Is<LauncherStatus> auto& v) {
  a.Version("version", v.version, kFirstApiVersion);
  a.Field("term", v.term);
  a.Field("epoch", v.epoch);
  // An unknown phase is from a newer launcher: assume that the job runs and may be interrupted.
  a.Field("phase", v.phase, AsWord(kPhaseNames, LauncherPhase::kForming));
  a.Optional("trainingEnded", v.training_ended);
  a.Field("lastOrder", v.last_order);
  a.Optional("ordered", v.ordered);
  a.Field("worldSize", v.world_size);
  a.Sparse("startedBy", v.started_by);
  a.Sparse("launchAgent", v.launch_agent);
  a.Field("workers", v.workers);
  a.Optional("progress", v.progress);
  a.Optional("lastRecovery", v.last_recovery);
  a.Optional("checkpoint", v.checkpoint);
  a.Optional("beginning", v.beginning);
  a.Optional("unprotected", v.unprotected);
  a.Optional("pauseReason", v.pause_reason);
  a.Optional("failures", v.failures);
  a.Optional("message", v.message);
  a.Optional("stragglers", v.stragglers);
  a.Optional("crashes", v.crashes);
}

const char* ToString(LauncherPhase phase) { return kPhaseNames[static_cast<std::size_t>(phase)]; }

std::string EncodeOrder(const Order& order) { return EncodeJson(order); }

Result<Order> DecodeOrder(std::string_view text) {
  Result<Order> order = DecodeJson<Order>(text);
  if (!order.ok()) return order.error().WithContext("reading an order");
  if (order->replicas < 0 || order->min_replicas < 0 || order->min_replicas > order->replicas) {
    return Error{ErrorKind::kInvalid,
                 "while reading an order: replicas and minReplicas must satisfy 0 <= minReplicas "
                 "<= replicas"};
  }
  return order;
}

std::string EncodeLauncherStatus(const LauncherStatus& status) { return EncodeJson(status); }

Result<LauncherStatus> DecodeLauncherStatus(std::string_view text) {
  Result<LauncherStatus> status = DecodeJson<LauncherStatus>(text);
  if (!status.ok()) return status.error().WithContext("reading a launcher's status");
  return status;
}

}  // namespace ringmaster::control
