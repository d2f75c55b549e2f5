#include "operator/job/job_memory.h"

#include <algorithm>
#include <utility>

namespace ringmaster::job {

namespace {

// A job has lost more than that at once, and no launcher has formed an epoch since: the oldest
// evidence goes.
constexpr std::size_t kMostGone = 1024;

bool SaysMember(const control::LauncherStatus& answer, const std::string& pod_uid) {
  return std::any_of(answer.workers.begin(), answer.workers.end(),
                     [&](const control::WorkerReport& worker) {
                       return worker.member && worker.pod_uid == pod_uid;
                     });
}

// A launcher that trains in a later epoch no longer counts votes of those that were missed before.
void ForgetOldEvidence(const std::optional<LauncherView>& launcher, JobMemory& memory) {
  if (launcher && launcher->status) {
    const control::LauncherStatus& answer = *launcher->status;
    for (GoneWorker& worker : memory.gone) {
      if (!worker.epoch) worker.epoch = answer.epoch;
    }
    std::erase_if(memory.gone, [&](const GoneWorker& worker) {
      return answer.phase == control::LauncherPhase::kRunning && *worker.epoch < answer.epoch &&
             !SaysMember(answer, worker.pod_uid);
    });
  }
  if (memory.gone.size() > kMostGone) {
    memory.gone.erase(memory.gone.begin(),
                      memory.gone.end() - static_cast<std::ptrdiff_t>(kMostGone));
  }
}

}  // namespace

void Remember(const Observed& observed, const std::optional<LauncherView>& launcher,
              Clock::Time now, JobMemory& memory) {
  std::set<std::string> workers;
  std::map<std::string, Clock::Time> leaving_since;
  std::set<std::string> nodes;
  observed.ForEachWorker([&](const PodPtr& worker) {
    workers.insert(worker->uid);
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
  for (const std::string& uid : memory.workers) {
    if (workers.contains(uid)) continue;
    memory.gone.push_back({.pod_uid = uid, .epoch = std::nullopt});
  }
  std::erase_if(memory.gone,
                [&](const GoneWorker& worker) { return workers.contains(worker.pod_uid); });
  memory.workers = std::move(workers);
  memory.leaving_since = std::move(leaving_since);
  memory.nodes = std::move(nodes);
  ForgetOldEvidence(launcher, memory);
}

}  // namespace ringmaster::job
