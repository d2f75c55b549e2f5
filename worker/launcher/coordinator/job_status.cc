// Builds the launcher's status, which the operator reads and users see in the job's conditions.

#include <algorithm>
#include <chrono>
#include <vector>

#include "common/base/byte_text.h"
#include "common/base/count_text.h"
#include "common/base/cut_text.h"
#include "worker/launcher/coordinator/job.h"

namespace ringmaster::launcher {

using control::LauncherPhase;

namespace {

std::string FillText(const control::DataCacheProgress& progress) {
  return "is filling its data cache: " + BytesOfText(progress.bytes_done, progress.bytes_total);
}

}  // namespace

control::LauncherStatus Job::Status(Time now) const {
  control::LauncherStatus status;
  status.term = options_.term;
  if (agents_start_) status.started_by = control::kByAgents;
  if (!openmpi_version_.empty()) status.started_by = control::kByMpirun;
  if (startup_.cohort() != control::kStartedByAgents) {
    status.launch_agent = through_agents_ ? control::kLaunchByAgent : control::kLaunchBySsh;
  }
  status.epoch = world_.epoch();
  status.phase = phase_;
  status.training_ended = released_at_.has_value() && phase_ == LauncherPhase::kRunning;
  status.progress = progress_;
  status.last_recovery = recovery_.last();
  status.checkpoint = checkpoints_.Newest(now);
  status.beginning = checkpoints_.beginning();
  status.unprotected = checkpoints_.Faults();
  status.pause_reason = PausedBecause();
  if (WaitsForOlderWorld(now)) {
    status.phase = LauncherPhase::kPaused;
    status.pause_reason = control::kPauseNoQuorum;
  }
  status.failures.assign(failures_.recorded().begin(), failures_.recorded().end());
  status.message = WaitingText(now);
  if (failures_.crashes() > 0)
    status.message += (status.message.empty() ? "" : "; ") + failures_.CrashText();
  status.crashes = failures_.crashes();
  status.stragglers = Stragglers(now);
  const bool runs = phase_ == LauncherPhase::kRunning || phase_ == LauncherPhase::kFinished;
  if (runs) status.world_size = Ranks();
  if (!order_) return status;
  status.last_order = order_->stamp;
  status.ordered = static_cast<int>(order_->workers.size());
  std::set<std::string> told;
  const std::vector<std::string> builds = Builds();
  for (const control::DesiredWorker& wanted : order_->workers) {
    status.workers.push_back(ReportOf(wanted.pod_uid, builds));
    told.insert(wanted.pod_uid);
  }
  // Also report workers that are leaving or have left, because they may be drained or fenced.
  std::set<std::string> others = world_.pods();
  for (const auto& [connection, pod_uid] : workers_.connections()) others.insert(pod_uid);
  for (const auto& [pod_uid, since] : left_order_at_) others.insert(pod_uid);
  for (const std::string& pod_uid : others) {
    if (!told.contains(pod_uid)) status.workers.push_back(ReportOf(pod_uid, builds));
  }
  return status;
}

control::WorkerReport Job::ReportOf(const std::string& pod_uid,
                                    const std::vector<std::string>& builds) const {
  control::WorkerReport report;
  report.pod_uid = pod_uid;
  report.member = world_.Contains(pod_uid);
  const bool proposed = IsProposed(pod_uid);
  const Worker* found = workers_.Find(pod_uid);
  if (found == nullptr) {
    report.drained = !InOrder(pod_uid);
    return report;
  }
  const Worker& worker = *found;
  report.ready = worker.IsReady();
  report.fenced = worker.Fenced();
  const bool unwanted = worker.leaving || !InOrder(pod_uid);
  report.drained =
      unwanted && !report.member && !proposed && (worker.stopping.empty() || !worker.connection);
  if (worker.ready) report.faults = worker.ready->faults;
  if (WorldCanChange() && report.ready && !report.member) {
    const std::string unfit = UnfitText(pod_uid, builds);
    if (!unfit.empty()) report.faults.push_back({"versions", unfit});
  }
  return report;
}

std::string Job::WaitingText(Time now) const {
  switch (phase_) {
    case LauncherPhase::kWaitingForOrder:
      return "waiting for the operator to send the list of workers";
    case LauncherPhase::kStarting:
      if (startup_.AllAttached()) return "waiting for the ranks to load their data and model";
      return "waiting for mpirun: " + std::to_string(startup_.gate().attached()) + " of " +
             std::to_string(world_.members().size()) + " processes are attached";
    case LauncherPhase::kStopping:
      return "ending epoch " + std::to_string(world_.epoch().number) + ": " + last_change_;
    case LauncherPhase::kAdopting:
    case LauncherPhase::kForming:
    case LauncherPhase::kPaused:
    case LauncherPhase::kRunning:
      return released_at_ ? AfterTrainingText() : WorldText();
    case LauncherPhase::kFinished:
      return "";
    case LauncherPhase::kWaitingForAgents:
      return WaitingForAgentsText(now);
  }
  return "";
}

// Says for which processes a released job waits.
std::string Job::AfterTrainingText() const {
  if (const std::set<std::string> pods = PodsWithReleasedRanks(); !pods.empty()) {
    return "training has ended; waiting for the processes on " + NamesOf(pods) + " to exit";
  }
  std::set<std::string> disconnected;
  for (const control::Member& member : world_.members()) {
    if (!exits_.contains({member.pod_uid, member.slot})) disconnected.insert(member.pod_uid);
  }
  if (!disconnected.empty()) {
    return "training has ended; waiting for " + NamesOf(disconnected) + " to connect again";
  }
  return "training has ended; waiting for mpirun to exit";
}

// Describes the first ordered worker that is not ready; if all are ready, describes the others.
std::string Job::MissingText() const {
  int ready = 0;
  for (const control::DesiredWorker& wanted : order_->workers) {
    const Worker* worker = workers_.Find(wanted.pod_uid);
    std::string why;
    if (worker == nullptr) {
      why = "has not connected";
    } else if (worker->Fenced()) {
      why = "was lost";
    } else if (worker->leaving) {
      why = "is leaving";
    } else if (!worker->connection) {
      why = "is disconnected";
    } else if (!worker->ready) {
      why = worker->filling ? FillText(*worker->filling) : "is not ready yet";
    } else if (!worker->ready->faults.empty()) {
      why = "failed the check '" + worker->ready->faults.front().check + "'";
    } else {
      ++ready;
    }
    if (!why.empty()) return NameOf(wanted.pod_uid) + " " + why;
  }
  return ready < order_->replicas ? "the others do not have a Pod yet" : "all others are loading";
}

// Names the first joiner that is still filling its data cache; empty if there is none.
std::string Job::FillingText() const {
  if (!order_) return "";
  for (const control::DesiredWorker& wanted : order_->workers) {
    const Worker* worker = workers_.Find(wanted.pod_uid);
    if (worker == nullptr || !worker->IsFilling()) continue;
    return NameOf(wanted.pod_uid) + " " + FillText(*worker->filling);
  }
  return "";
}

std::string Job::WaitingForAgentsText(Time now) const {
  if (ReportsPending(now)) {
    return "waiting for workers to report whether a world is already running";
  }
  if (const auto pause = MayStartAt(now) - now; pause > Time::duration::zero()) {
    return last_change_ + "; restarting in " +
           CountText(std::chrono::ceil<std::chrono::seconds>(pause).count(), "second");
  }
  const std::set<std::string> unaccounted = Unaccounted();
  if (WaitsForOlderWorld(now)) {
    return "waiting for " + NamesOf(unaccounted) +
           " to connect or to be confirmed gone, because an older world of this job may still be "
           "training";
  }
  int ready = 0;
  for (const control::DesiredWorker& wanted : order_->workers) {
    const Worker* worker = workers_.Find(wanted.pod_uid);
    if (worker != nullptr && worker->IsReady()) ++ready;
  }
  const int missing = std::max(0, order_->replicas - ready);
  const bool partial = unaccounted.empty() && order_->min_replicas < order_->replicas &&
                       now - std::max(waiting_since_, LastFilled()) < options_.partial_after;
  std::string text =
      "waiting for " + std::to_string(missing) + " of " + CountText(order_->replicas, "worker");
  const bool all_ready = ready == static_cast<int>(order_->workers.size());
  if (!all_ready || missing > 0) text += ": " + MissingText();
  if (partial) {
    const auto wait = std::chrono::duration_cast<std::chrono::seconds>(options_.partial_after);
    text += "; after " + std::to_string(wait.count()) + " s" +
            (LastFilled() == Time{} ? "" : " without progress of a data cache") +
            " the job starts once at least " +
            CountText(std::max(1, order_->min_replicas), "worker", "is", "are") + " ready";
  }
  if (!last_change_.empty()) text += " (the last world ended: " + last_change_ + ")";
  return text;
}

std::string Job::RankText(const control::RankExit& exit) const {
  return (exit.rank < 0 ? "the rank of slot " + std::to_string(exit.slot)
                        : "rank " + std::to_string(exit.rank)) +
         " on " + NameOf(exit.pod_uid);
}

std::string Job::NameOf(const std::string& pod_uid) const {
  std::string pod;
  std::string node;
  if (const Worker* worker = workers_.Find(pod_uid)) {
    pod = worker->hello.pod;
    node = worker->hello.node;
  }
  if (pod.empty() && order_) {  // the Pod never sent a hello
    for (const control::DesiredWorker& wanted : order_->workers) {
      if (wanted.pod_uid != pod_uid) continue;
      pod = wanted.pod;
      node = wanted.node;
    }
  }
  if (pod.empty()) return "Pod " + pod_uid;
  return node.empty() ? pod : pod + " (" + node + ")";
}

std::string Job::NamesOf(const std::set<std::string>& pod_uids) const {
  constexpr std::size_t kMostNamed = 5;
  std::vector<std::string> names;
  for (const std::string& pod_uid : pod_uids) names.push_back(NameOf(pod_uid));
  return ListText(names, kMostNamed);
}

std::string Job::SlotText(const Slot& slot) const {
  return NameOf(slot.first) + " slot " + std::to_string(slot.second);
}

}  // namespace ringmaster::launcher
