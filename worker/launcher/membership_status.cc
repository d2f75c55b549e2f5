// The launcher's state in words, for the operator's conditions and for people.

#include <algorithm>

#include "worker/launcher/membership.h"

namespace ringmaster::launcher {

using control::LauncherPhase;

control::LauncherStatus Membership::Status(Time now) const {
  control::LauncherStatus status;
  status.term = options_.term;
  status.epoch = epoch_;
  status.phase = phase_;
  status.progress = progress_;
  status.message = WaitingText(now);
  const bool runs = phase_ == LauncherPhase::kRunning || phase_ == LauncherPhase::kFinished;
  if (runs) status.world_size = WorldSize();
  if (!order_) return status;
  status.last_order = order_->stamp;
  for (const control::DesiredWorker& wanted : order_->workers) {
    control::WorkerReport& report = status.workers.emplace_back();
    report.pod_uid = wanted.pod_uid;
    report.member = IsMember(wanted.pod_uid);
    const auto worker = workers_.find(wanted.pod_uid);
    if (worker == workers_.end()) continue;
    report.ready = IsReady(worker->second);
    if (worker->second.ready) report.faults = worker->second.ready->faults;
  }
  return status;
}

std::string Membership::WaitingText(Time now) const {
  switch (phase_) {
    case LauncherPhase::kWaitingForOrder:
      return "waits for the operator to say who the workers are";
    case LauncherPhase::kStarting:
      return "waits for mpirun: " + std::to_string(attached_.size()) + " of " +
             std::to_string(members_.size()) + " processes have attached";
    case LauncherPhase::kStopping:
      return "ends epoch " + std::to_string(epoch_.number) + ": " + last_change_;
    case LauncherPhase::kRunning:
    case LauncherPhase::kFinished:
      return "";
    case LauncherPhase::kWaitingForAgents:
      break;
  }
  int ready = 0;
  std::string first_missing;
  for (const control::DesiredWorker& wanted : order_->workers) {
    const auto worker = workers_.find(wanted.pod_uid);
    std::string why;
    if (worker == workers_.end()) {
      why = "has not dialled";
    } else if (worker->second.lost) {
      why = "was lost";
    } else if (worker->second.leaving) {
      why = "is leaving";
    } else if (!worker->second.connection) {
      why = "has lost its connection";
    } else if (!worker->second.ready) {
      why = "is not ready yet";
    } else if (!worker->second.ready->faults.empty()) {
      why = "failed the check '" + worker->second.ready->faults.front().check + "'";
    } else {
      ++ready;
    }
    if (!why.empty() && first_missing.empty()) first_missing = NameOf(wanted.pod_uid) + " " + why;
  }
  if (first_missing.empty() && ready < order_->replicas)
    first_missing = "the others have no Pod yet";
  const bool partial =
      order_->min_replicas < order_->replicas && now - waiting_since_ < options_.partial_after;
  std::string text = "waits for " + std::to_string(std::max(0, order_->replicas - ready)) + " of " +
                     std::to_string(order_->replicas) + " workers";
  if (!first_missing.empty()) text += ": " + first_missing;
  if (partial) text += "; with " + std::to_string(order_->min_replicas) + " it starts after 30 s";
  if (!last_change_.empty()) text += " (the last world ended: " + last_change_ + ")";
  return text;
}

std::string Membership::NameOf(const std::string& pod_uid) const {
  std::string pod;
  std::string node;
  if (const auto worker = workers_.find(pod_uid); worker != workers_.end()) {
    pod = worker->second.hello.pod;
    node = worker->second.hello.node;
  } else if (order_) {
    for (const control::DesiredWorker& wanted : order_->workers) {
      if (wanted.pod_uid != pod_uid) continue;
      pod = wanted.pod;
      node = wanted.node;
    }
  }
  if (pod.empty()) return "Pod " + pod_uid;
  return node.empty() ? pod : pod + " (" + node + ")";
}

std::string Membership::SlotText(const Slot& slot) const {
  return NameOf(slot.first) + " slot " + std::to_string(slot.second);
}

}  // namespace ringmaster::launcher
