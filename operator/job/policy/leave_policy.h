#pragma once

// Decides which workers leave a running job, and when their Pods may be deleted. A worker that is
// chosen is first marked (api::kAnnotationLeaving), so that a restarted operator does not choose
// another one. Then it is removed from the order and finishes its step, and its Pod is deleted when
// the launcher reports it drained. Pure functions.

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "operator/api/types.h"
#include "operator/job/model/observed.h"
#include "operator/job/model/reports.h"

namespace ringmaster::job {

// From its mark on; then the Pod is deleted all the same, and the launcher counts it as lost,
// provided that others train on: the last ranks with the state of the training are waited for.
inline constexpr std::chrono::seconds kDrainLimit{30};

// `count` of the candidates, first those that do nothing for the job: Pods that do not run, workers
// that are not ready, workers that are not members; then those whose ranks are stragglers, the
// slowest first; then the youngest, which has the highest index.
std::vector<PodPtr> ChooseLeavers(std::vector<PodPtr> candidates, const Reports& reports,
                                  std::size_t count);

enum class Leave {
  kWait,     // its ranks still train, or hand over
  kGo,       // it is no longer needed
  kOverdue,  // its time limit is over
  kHeld      // its time limit is over, but only its ranks may have the state
};

// REQUIRES: the Pod is marked. `marked_since`: when its mark was first seen; unset: just now.
Leave JudgeLeaver(const PodView& pod, const api::TrainingJob& job, const Reports& reports,
                  std::optional<Clock::Time> marked_since, Clock::Time now);

// The remaining time of a Pod with such a mark; zero once it is overdue.
std::chrono::milliseconds DrainTimeLeft(std::optional<Clock::Time> marked_since, Clock::Time now);

}  // namespace ringmaster::job
