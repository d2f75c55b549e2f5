#include "operator/job/policy/loss_policy.h"

#include <string_view>

#include "operator/api/names.h"
#include "operator/job/policy/node_policy.h"

namespace ringmaster::job {

namespace {

// The time that agents need to connect to a launcher after its first answer.
constexpr std::chrono::seconds kTimeToDial{5};

// Returns how much longer missing workers are ignored, because the launcher is new.
std::chrono::milliseconds TimeToDialLeft(const Reports& reports, Clock::Time now) {
  const Clock::Time since = reports.answered_since().value_or(now);
  return std::chrono::ceil<std::chrono::milliseconds>(since + kTimeToDial - now);
}

bool KnowsItsWorkers(const Reports& reports, Clock::Time now) {
  using Phase = control::LauncherPhase;
  const control::LauncherStatus* answer = reports.answer();
  return answer != nullptr && answer->phase != Phase::kWaitingForOrder &&
         answer->phase != Phase::kWaitingForAgents && answer->phase != Phase::kAdopting &&
         TimeToDialLeft(reports, now).count() <= 0;
}

// Returns the members in the launcher's answer that match no Pod of the job.
std::vector<std::string> MissingMembers(const Observed& observed,
                                        const control::LauncherStatus* answer) {
  if (answer == nullptr) return {};
  std::set<std::string_view> exist;
  observed.ForEachWorker([&](const PodPtr& pod) { exist.insert(pod->uid); });
  std::vector<std::string> missing;
  for (const control::WorkerReport& worker : answer->workers) {
    if (worker.member && !exist.contains(worker.pod_uid)) missing.push_back(worker.pod_uid);
  }
  return missing;
}

}  // namespace

std::vector<LostWorker> FindLost(const Observed& observed, const std::set<std::string>& known_nodes,
                                 const Reports& reports, Clock::Time now) {
  const NodesSeen& nodes = observed.nodes;
  const bool hold = !ManyUnreachable(observed).empty();
  const bool knows_workers = reports.current() && KnowsItsWorkers(reports, now);
  std::vector<LostWorker> lost;
  for (const PodPtr& pod : observed.live) {
    const NodeFate fate = FateOfNode(*pod, nodes, known_nodes);
    const control::WorkerReport* report = reports.Find(pod->uid);
    const bool connected = report != nullptr && report->ready;
    const auto who = [&] { return pod->name + " " + WherePodRuns(*pod, nodes); };
    if (fate == NodeFate::kGone) {
      lost.push_back({pod, api::kReasonNodeLost,
                      pod->name + " is lost with its node " + pod->node +
                          ", which was deleted or taken out of service"});
    } else if (hold && fate == NodeFate::kNotReady) {
      continue;
    } else if (report != nullptr && report->fenced) {
      lost.push_back({pod, api::kReasonWorkerLost, who() + " is silent"});
    } else if (fate == NodeFate::kNotReady && knows_workers && !connected) {
      lost.push_back({pod, api::kReasonNodeNotReady, who() + ", is not connected"});
    }
  }
  return lost;
}

std::optional<std::chrono::milliseconds> JudgeNodesAgainIn(const NodesSeen& nodes,
                                                           const Reports& reports,
                                                           Clock::Time now) {
  if (nodes.not_ready == 0 || reports.answer() == nullptr) return std::nullopt;
  const auto left = TimeToDialLeft(reports, now);
  return left.count() > 0 ? std::optional(left) : std::nullopt;
}

std::vector<std::string> CertainlyDead(const Observed& observed,
                                       const std::set<std::string>& known_nodes,
                                       const std::vector<GoneWorker>& gone,
                                       const control::LauncherStatus* answer,
                                       const std::vector<PodPtr>& kept) {
  std::set<std::string> dead;
  observed.ForEachWorker([&](const PodPtr& pod) {
    const bool node_gone = FateOfNode(*pod, observed.nodes, known_nodes) == NodeFate::kGone;
    if (pod->container.terminated || node_gone) dead.insert(pod->uid);
  });
  for (const PodPtr& pod : kept) dead.erase(pod->uid);
  for (const std::string& uid : MissingMembers(observed, answer)) dead.insert(uid);
  for (const GoneWorker& worker : gone) dead.insert(worker.pod_uid);
  return {dead.begin(), dead.end()};
}

}  // namespace ringmaster::job
