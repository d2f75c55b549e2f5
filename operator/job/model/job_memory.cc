#include "operator/job/model/job_memory.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "operator/api/names.h"

namespace ringmaster::job {

namespace {

// The maximum number of lost Pods in memory. If a job loses more without a new epoch, the
// oldest are removed.
constexpr std::size_t kMostGone = 1024;

// Removes Pods that were missed before the launcher's current epoch and are not its members.
void ForgetOldEvidence(const std::optional<LauncherView>& launcher, std::vector<GoneWorker>& gone) {
  if (launcher && launcher->status && !gone.empty()) {
    const control::LauncherStatus& answer = *launcher->status;
    for (GoneWorker& worker : gone) {
      if (!worker.epoch) worker.epoch = answer.epoch;
    }
    std::unordered_set<std::string_view> members;
    for (const control::WorkerReport& worker : answer.workers) {
      if (worker.member) members.insert(worker.pod_uid);
    }
    std::erase_if(gone, [&](const GoneWorker& worker) {
      return answer.phase == control::LauncherPhase::kRunning && *worker.epoch < answer.epoch &&
             !members.contains(worker.pod_uid);
    });
  }
  const std::size_t kept = std::min(gone.size(), kMostGone);
  gone.erase(gone.begin(), gone.end() - static_cast<std::ptrdiff_t>(kept));
}

void RememberStarts(const Observed& observed, Clock::Time now, SlowStart& slow) {
  std::map<std::string, Clock::Time> since;
  const auto look = [&](const PodPtr& pod) {
    if (pod == nullptr || pod->deleting || pod->phase != PodPhase::kPending) return;
    if (pod->node.empty() || !IsNormalWait(pod->container.waiting_reason)) return;
    const auto known = slow.since.find(pod->uid);
    since[pod->uid] = known == slow.since.end() ? now : known->second;
  };
  look(observed.launcher);
  for (const PodPtr& worker : observed.live) look(worker);
  if (since.empty()) {
    slow = {};
    return;
  }
  if (!since.contains(slow.asked)) slow.warning.clear();
  slow.since = std::move(since);
}

}  // namespace

const char* ReasonOf(RefusalCause cause) {
  switch (cause) {
    case RefusalCause::kQuotaExceeded:
      return api::kReasonQuotaExceeded;
    case RefusalCause::kPodSecurity:
      return api::kReasonPodSecurity;
    case RefusalCause::kForbidden:
      return api::kReasonForbidden;
    case RefusalCause::kInvalidPod:
    case RefusalCause::kInvalidSpec:
      return api::kReasonInvalidSpec;
    case RefusalCause::kRefusedByProfile:
      return api::kReasonRefusedByProfile;
    case RefusalCause::kNameConflict:
      return api::kReasonNameConflict;
    case RefusalCause::kNameInUse:
      return api::kReasonCreating;
    case RefusalCause::kCredentialsUnavailable:
      return api::kReasonCredentialsUnavailable;
    case RefusalCause::kOther:
      break;
  }
  return api::kReasonApiError;
}

std::chrono::milliseconds IsolationCheckDue(const std::optional<IsolationCheck>& latest,
                                            Clock::Time now) {
  if (!latest || !latest->isolated) return {};
  const auto left = latest->at + kCheckIsolation - now;
  return std::max(std::chrono::milliseconds(0), std::chrono::ceil<std::chrono::milliseconds>(left));
}

void Remember(const Observed& observed, const std::optional<LauncherView>& launcher,
              Clock::Time now, JobMemory& memory) {
  std::map<std::string, PodPtr> workers;
  std::map<std::string, Clock::Time> leaving_since;
  std::set<std::string> nodes;
  observed.ForEachWorker([&](const PodPtr& worker) {
    workers.emplace(worker->uid, worker);
    if (!worker->leaving.empty()) {
      const auto known = memory.leaving_since.find(worker->uid);
      leaving_since[worker->uid] = known == memory.leaving_since.end() ? now : known->second;
    }
    if (observed.nodes.of_job.contains(worker->node) || memory.nodes.contains(worker->node)) {
      nodes.insert(worker->node);
    }
  });
  if (observed.launcher != nullptr && (observed.nodes.of_job.contains(observed.launcher->node) ||
                                       memory.nodes.contains(observed.launcher->node))) {
    nodes.insert(observed.launcher->node);
  }
  for (GoneWorker& worker : memory.gone) worker.news = false;
  for (const auto& [uid, worker] : memory.workers) {
    if (workers.contains(uid)) continue;
    // Do not report workers that were already leaving or being deleted.
    memory.gone.push_back({.pod_uid = uid,
                           .epoch = std::nullopt,
                           .pod = worker->name,
                           .node = worker->node,
                           .news = !worker->deleting && worker->leaving.empty()});
  }
  std::erase_if(memory.gone,
                [&](const GoneWorker& worker) { return workers.contains(worker.pod_uid); });
  memory.workers = std::move(workers);
  memory.leaving_since = std::move(leaving_since);
  memory.nodes = std::move(nodes);
  ForgetOldEvidence(launcher, memory.gone);
  RememberStarts(observed, now, memory.slow_start);
}

}  // namespace ringmaster::job
