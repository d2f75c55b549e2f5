#pragma once

// Decides which workers are lost although their Pods look alive, and which have certainly ended.
// Lost workers are deleted and replaced immediately: a launcher never admits a fenced Pod again.
// Orders list the workers that have certainly ended, as evidence (ADR 158). Pure functions.

#include <chrono>
#include <optional>
#include <set>
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
  const char* reason;  // the reason in status.failures
  std::string text;    // why the worker is lost, as a sentence for the event
};

// Returns the lost workers among observed.live, in the same order. `known_nodes`: JobMemory::nodes.
std::vector<LostWorker> FindLost(const Observed& observed, const std::set<std::string>& known_nodes,
                                 const Reports& reports, Clock::Time now);

// Returns the time for which workers on nodes that are not ready may still connect to a launcher
// that answered recently. Returns nothing if the time is over, or if all nodes are ready.
std::optional<std::chrono::milliseconds> JudgeNodesAgainIn(const NodesSeen& nodes,
                                                           const Reports& reports, Clock::Time now);

// Returns the sorted UIDs of worker Pods that have certainly ended. Includes members in the
// launcher's answer that match no Pod of the job: another operator may have seen their end.
// Excludes `kept`: workers that have completed their work and still count. `known_nodes`, `gone`:
// those of JobMemory.
std::vector<std::string> CertainlyDead(const Observed& observed,
                                       const std::set<std::string>& known_nodes,
                                       const std::vector<GoneWorker>& gone,
                                       const control::LauncherStatus* answer,
                                       const std::vector<PodPtr>& kept);

}  // namespace ringmaster::job
