#pragma once

// Explains why a Pod does not start if its status gives no reason: only the kubelet's events report
// a missing ConfigMap, Secret or volume. Decides whose events to read, and extracts the message.
// Anyone with write access to events in the job's namespace can forge one, so the message is cut
// and displayed but never used for decisions. Pure functions; the reconciler reads the events.

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
  std::optional<std::chrono::milliseconds> left;  // until the next question
};

// One Pod of a job at a time, at growing intervals, because all Pods lack the same.
NextQuestion PodToAskAbout(const Observed& observed, const JobMemory& memory, Clock::Time now);

// Its newest event where that is a warning: "FailedMount: configmap "data" not found"; else empty.
std::string NewestWarning(const std::vector<nlohmann::json>& events, const std::string& pod_uid);

// Keeps the answer. Returns true if it differs from the previous one.
bool NoteAnswer(const PodQuestion& question, std::string warning, Clock::Time now,
                JobMemory& memory);

}  // namespace ringmaster::job
