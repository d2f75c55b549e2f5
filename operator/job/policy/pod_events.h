#pragma once

// Explains why a Pod does not start if its status gives no reason: only the kubelet's events report
// a missing ConfigMap, Secret or volume. Decides which Pod's events to read, and gets the message.
// Anyone with write access to events in the job's namespace can forge events, so the message is cut
// and displayed but never used for decisions. Pure functions; the reconciler reads the events.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "operator/job/model/job_memory.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

// The time within which a healthy Pod starts if its image is on the node.
inline constexpr std::chrono::seconds kAskAboutStartAfter{5};

struct NextQuestion {
  std::optional<PodQuestion> ask;                 // the Pod whose events must be read now
  std::optional<std::chrono::milliseconds> left;  // time until the next read
};

// Chooses one Pod of a job at a time, at growing intervals, because Pods usually share a problem.
NextQuestion PodToAskAbout(const Observed& observed, const SlowStart& slow, Clock::Time now);

// Returns the Pod's newest event if it is a warning, such as "FailedMount: ..."; otherwise empty.
std::string NewestWarning(const std::vector<nlohmann::json>& events, const std::string& pod_uid);

struct EventsRead {
  SlowStart slow;
  bool news = false;  // whether the warning differs from the previous one
};

// Returns what is known once the events of a Pod have been read. `slow`: what was known before;
// `warning`: the result of NewestWarning().
EventsRead AfterReading(SlowStart slow, const PodQuestion& question, std::string warning,
                        Clock::Time now);

}  // namespace ringmaster::job
