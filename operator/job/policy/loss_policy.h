#pragma once

// Which workers are lost although their Pods look alive, and whose end is certain. Lost ones are
// deleted and replaced at once: a launcher never lets a ghost in again. What is certain goes into
// the order, where it counts as evidence (docs/decisions.md, D3). Pure.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "operator/job/model/plan.h"
#include "operator/job/model/reports.h"

namespace ringmaster::job {

struct LostWorker {
  PodPtr pod;
  const char* reason;  // of status.failures
  std::string text;    // for people
};

// Of observed.live, in its order.
std::vector<LostWorker> FindLost(const PlanInput& input, const Reports& reports);

// A launcher that has only just answered is given time before workers on nodes that are not ready
// are missed there: how long still. Nothing when no such node waits for it.
std::optional<std::chrono::milliseconds> JudgeNodesAgainIn(const PlanInput& input);

// UIDs that the launcher calls members and that no Pod of the job has: whoever watched them go may
// have been another operator.
std::vector<std::string> MissingMembers(const PlanInput& input);

// UIDs of worker Pods that certainly ended, sorted. Workers that finished their job are none:
// `kept` are those that still count.
std::vector<std::string> CertainlyDead(const PlanInput& input, const std::vector<PodPtr>& kept);

}  // namespace ringmaster::job
