#pragma once

// Workers that have to go while the job goes on: which ones, and when their Pods may be deleted.
// One that was chosen carries a mark (api::kAnnotationLeaving) before anybody is told, so that an
// operator that starts again never chooses a second one; then it is left out of the order, finishes
// its step, and its Pod goes when the launcher reports it drained. Pure.

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
  kGo,       // nothing of it is needed any more
  kOverdue,  // it had its time
  kHeld      // it had its time, but nobody is known to have what its ranks have
};

// REQUIRES: the Pod is marked. `marked_since`: when its mark was first seen; unset: just now.
Leave JudgeLeaver(const PodView& pod, const api::TrainingJob& job, const Reports& reports,
                  std::optional<Clock::Time> marked_since, Clock::Time now);

// How long a Pod with such a mark may still take; zero once it is overdue.
std::chrono::milliseconds DrainTimeLeft(std::optional<Clock::Time> marked_since, Clock::Time now);

}  // namespace ringmaster::job
