#pragma once

// Decides which workers are lost although their Pods look alive, and which have certainly ended.
// Lost workers are deleted and replaced at once: a launcher never admits a fenced Pod again. Orders
// list those that certainly ended, as evidence (ADR 158). Pure functions.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/control/launcher_api.h"
#include "operator/job/model/job_memory.h"
#include "operator/job/model/observed.h"
#include "operator/job/model/reports.h"

namespace ringmaster::job {

struct LostWorker {
  PodPtr pod;
  const char* reason;  // of status.failures
  std::string text;    // for people
};

// A subset of observed.live, in its order.
std::vector<LostWorker> FindLost(const Observed& observed, const JobMemory& memory,
                                 const Reports& reports, Clock::Time now);

// A launcher that has only just answered is given time before workers on nodes that are not ready
// are missed there: how long still. Nothing when no such node waits for it.
std::optional<std::chrono::milliseconds> JudgeNodesAgainIn(const NodesSeen& nodes,
                                                           const Reports& reports, Clock::Time now);

// UIDs of worker Pods that certainly ended, sorted. Includes members that the launcher's answer
// names and that match no Pod of the job: another operator may have seen them end. Excludes workers
// that finished their job: `kept` still count.
std::vector<std::string> CertainlyDead(const Observed& observed, const JobMemory& memory,
                                       const control::LauncherStatus* answer,
                                       const std::vector<PodPtr>& kept);

}  // namespace ringmaster::job
