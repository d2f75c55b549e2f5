// The launcher's state in words, for the operator's conditions and for people.

#include <algorithm>

#include "common/base/byte_text.h"
#include "worker/launcher/membership.h"

namespace ringmaster::launcher {
namespace {

using control::LauncherPhase;

// How long the operator is still told of a Pod that it no longer orders.
constexpr std::chrono::seconds kRemembered{60};

std::string FillText(const control::DataCacheProgress& progress) {
  return "fills its data cache: " + BytesOfText(progress.bytes_done, progress.bytes_total);
}

}  // namespace

control::LauncherStatus Membership::Status(Time now) const {
  control::LauncherStatus status;
  status.term = options_.term;
  status.epoch = epoch_;
  status.phase = phase_;
  status.progress = progress_;
  status.last_recovery = recovery_.last();
  status.checkpoint = safekeeping_.Newest(now);
  status.beginning = safekeeping_.beginning();
  status.unprotected = safekeeping_.Faults();
  if (phase_ == LauncherPhase::kPaused) status.pause_reason = pause_reason_;
  if (HeldByAnOlderWorld(now)) {
    status.phase = LauncherPhase::kPaused;
    status.pause_reason = control::kPauseNoQuorum;
  }
  status.failures.assign(failures_.begin(), failures_.end());
  status.message = WaitingText(now);
  if (crashes_.count() > 0) status.message += (status.message.empty() ? "" : "; ") + CrashText();
  status.crashes = crashes_.count();
  status.stragglers = Stragglers(now);
  const bool runs = phase_ == LauncherPhase::kRunning || phase_ == LauncherPhase::kFinished;
  if (runs) status.world_size = WorldSize();
  if (!order_) return status;
  status.last_order = order_->stamp;
  status.ordered = static_cast<int>(order_->workers.size());
  std::set<std::string> told;
  const std::vector<std::string> builds =
      Elastic() ? BuildsOf(Survivors()) : std::vector<std::string>();
  for (const control::DesiredWorker& wanted : order_->workers) {
    status.workers.push_back(ReportOf(wanted.pod_uid, builds));
    told.insert(wanted.pod_uid);
  }
  // Whoever is to go, or has gone: "drained" and "lost" are news of them.
  std::set<std::string> others = member_pods_;
  for (const auto& [connection, pod_uid] : connections_) others.insert(pod_uid);
  for (const auto& [pod_uid, since] : unwanted_since_) {
    if (now - since < kRemembered) others.insert(pod_uid);
  }
  for (const std::string& pod_uid : others) {
    if (!told.contains(pod_uid)) status.workers.push_back(ReportOf(pod_uid, builds));
  }
  return status;
}

control::WorkerReport Membership::ReportOf(const std::string& pod_uid,
                                           const std::vector<std::string>& builds) const {
  control::WorkerReport report;
  report.pod_uid = pod_uid;
  report.member = IsMember(pod_uid);
  const bool proposed = proposal_ && proposal_->Contains(pod_uid);
  const auto found = workers_.find(pod_uid);
  if (found == workers_.end()) {
    report.drained = !InOrder(pod_uid) && !report.member;
    return report;
  }
  const Worker& worker = found->second;
  report.ready = IsReady(worker);
  report.lost = worker.lost;
  const bool unwanted = worker.leaving || !InOrder(pod_uid);
  report.drained =
      unwanted && !report.member && !proposed && (worker.stopping.empty() || !worker.connection);
  if (worker.ready) report.faults = worker.ready->faults;
  if (Elastic() && report.ready && !report.member) {
    const std::string unfit = UnfitText(pod_uid, builds);
    if (!unfit.empty()) report.faults.push_back({"versions", unfit});
  }
  return report;
}

std::string Membership::WaitingText(Time now) const {
  switch (phase_) {
    case LauncherPhase::kWaitingForOrder:
      return "waits for the operator to say who the workers are";
    case LauncherPhase::kStarting:
      if (gate_.Complete()) return "waits for the ranks to load their data and model";
      return "waits for mpirun: " + std::to_string(gate_.attached()) + " of " +
             std::to_string(members_.size()) + " processes have attached";
    case LauncherPhase::kStopping:
      return "ends epoch " + std::to_string(epoch_.number) + ": " + last_change_;
    case LauncherPhase::kAdopting:
      return "waits for the members of the world that runs since before this launcher";
    case LauncherPhase::kForming:
      return "waits for " + std::to_string(proposal_->pods().size()) + " workers to accept epoch " +
             std::to_string(proposal_->epoch().number);
    case LauncherPhase::kPaused:
      return PausedText();
    case LauncherPhase::kRunning:
      return switching_ ? "waits for the ranks to finish a step before members change"
                        : FillingText();
    case LauncherPhase::kFinished:
      return "";
    case LauncherPhase::kWaitingForAgents:
      return WaitingForAgentsText(now);
  }
  return "";
}

std::string Membership::PausedText() const {
  if (pause_reason_ == control::kPauseBelowMinReplicas) {
    const std::size_t pods = SurvivingPods();
    return "training pauses with its state kept: " + std::to_string(pods) + " of at least " +
           std::to_string(order_->min_replicas) + " workers are there; " + MissingText();
  }
  std::string missing;
  for (const std::string& pod_uid : member_pods_) {
    if (!workers_.at(pod_uid).silent || KnownDead(pod_uid)) continue;
    missing += (missing.empty() ? "" : ", ") + NameOf(pod_uid);
    if (missing.size() > 300) break;
  }
  return "training pauses with its state kept: too few workers of the last world are left to be "
         "sure that no other part of it trains on; waits for " +
         (missing.empty() ? "them" : missing) + " to come back or to be certainly gone";
}

// The first worker ordered that is not ready, and why; empty when all are.
std::string Membership::MissingText() const {
  int ready = 0;
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
      why = worker->second.filling ? FillText(*worker->second.filling) : "is not ready yet";
    } else if (!worker->second.ready->faults.empty()) {
      why = "failed the check '" + worker->second.ready->faults.front().check + "'";
    } else {
      ++ready;
    }
    if (!why.empty()) return NameOf(wanted.pod_uid) + " " + why;
  }
  return ready < order_->replicas ? "the others have no Pod yet" : "all others are loading";
}

// The first joiner whose data cache is being filled; empty where there is none.
std::string Membership::FillingText() const {
  if (!order_) return "";
  for (const control::DesiredWorker& wanted : order_->workers) {
    const auto worker = workers_.find(wanted.pod_uid);
    if (worker == workers_.end() || !IsFilling(worker->second)) continue;
    return NameOf(wanted.pod_uid) + " " + FillText(*worker->second.filling);
  }
  return "";
}

std::string Membership::WaitingForAgentsText(Time now) const {
  if (ReportsMayCome(now)) {
    return "waits for workers to report whether a world runs already";
  }
  const std::set<std::string> unaccounted = Unaccounted();
  if (HeldByAnOlderWorld(now)) {
    std::string names;
    for (const std::string& pod_uid : unaccounted) {
      names += (names.empty() ? "" : ", ") + NameOf(pod_uid);
      if (names.size() > 300) break;
    }
    return "does not start a world while another one of this job may train: waits for " + names +
           " to dial or to be certainly gone";
  }
  int ready = 0;
  for (const control::DesiredWorker& wanted : order_->workers) {
    const auto worker = workers_.find(wanted.pod_uid);
    if (worker != workers_.end() && IsReady(worker->second)) ++ready;
  }
  const int missing = std::max(0, order_->replicas - ready);
  const bool partial = unaccounted.empty() && order_->min_replicas < order_->replicas &&
                       now - std::max(waiting_since_, LastFilled()) < options_.partial_after;
  std::string text = "waits for " + std::to_string(missing) + " of " +
                     std::to_string(order_->replicas) + " workers";
  const bool all_ready =
      std::all_of(order_->workers.begin(), order_->workers.end(), [&](const auto& wanted) {
        const auto worker = workers_.find(wanted.pod_uid);
        return worker != workers_.end() && IsReady(worker->second);
      });
  if (!all_ready || missing > 0) text += ": " + MissingText();
  if (partial) {
    text += "; with " + std::to_string(order_->min_replicas) + " it starts after 30 s" +
            (LastFilled() == Time{} ? "" : " without news of it");
  }
  if (!last_change_.empty()) text += " (the last world ended: " + last_change_ + ")";
  return text;
}

// REQUIRES: crashes_.count() > 0.
std::string Membership::CrashText() const {
  const std::string times = std::to_string(crashes_.count());
  return newest_crash_ + "; ranks were killed or did not load " + times +
         (crashes_.count() == 1 ? " time" : " times in a row") + " without a further step" +
         (crashes_.limit() > 0 ? ", and the job fails at " + std::to_string(crashes_.limit()) +
                                     " (runPolicy.restart.crashLimit)"
                               : "");
}

std::string Membership::RankText(const control::RankExit& exit) const {
  return (exit.rank < 0 ? "the rank of slot " + std::to_string(exit.slot)
                        : "rank " + std::to_string(exit.rank)) +
         " on " + NameOf(exit.pod_uid);
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
