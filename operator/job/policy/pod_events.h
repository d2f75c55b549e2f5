#pragma once

// What keeps a Pod from starting where its status names nothing: a ConfigMap, a Secret or a volume
// that is missing is told by the kubelet's events alone. Decides whose events are read, and what
// they say. Anyone who may write events in the job's namespace can write such a text: it is shown,
// cut short, and nothing is decided by it. Pure; the reconciler asks.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "operator/job/model/job_memory.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

// A healthy Pod has started by then, if its image is on the node.
inline constexpr std::chrono::seconds kAskAboutStartAfter{5};

struct NextQuestion {
  std::optional<PodQuestion> ask;                 // now
  std::optional<std::chrono::milliseconds> left;  // until somebody is to be asked about
};

// One Pod at a time of a job, ever more seldom: what is missing for one is missing for all.
NextQuestion PodToAskAbout(const Observed& observed, const JobMemory& memory, Clock::Time now);

// Its newest event where that is a warning: "FailedMount: configmap "data" not found"; else empty.
std::string NewestWarning(const std::vector<nlohmann::json>& events, const std::string& pod_uid);

// Keeps the answer. True when it says something else than the one before.
bool NoteAnswer(const PodQuestion& question, std::string warning, Clock::Time now,
                JobMemory& memory);

}  // namespace ringmaster::job
