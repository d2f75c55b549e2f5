#pragma once

// Decides which workers leave a running job, and when their Pods may be deleted. A chosen worker is
// first marked (api::kAnnotationLeaving), so that a restarted operator does not choose another one.
// Then it is removed from the order and finishes its step. Its Pod is deleted when the launcher
// reports that the worker is drained. Pure functions.

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "operator/api/types.h"
#include "operator/job/model/observed.h"
#include "operator/job/model/reports.h"

namespace ringmaster::job {

// The time limit for leaving, counted from the mark. Then the Pod is deleted and counts as lost,
// but only if other workers train: otherwise its ranks may be the last with the training state.
inline constexpr std::chrono::seconds kDrainLimit{30};

// Chooses `count` candidates in this order: Pods that do not run, workers that are not ready,
// workers that are not members of the world, and then members. Among equal candidates, it chooses
// first the slowest stragglers and then the highest indices.
std::vector<PodPtr> ChooseLeavers(std::vector<PodPtr> candidates, const Reports& reports,
                                  std::size_t count);

enum class Leave {
  kWait,     // the Pod's ranks still train or hand over their state
  kGo,       // the Pod may be deleted, because it is no longer needed
  kOverdue,  // the time limit has expired
  kHeld      // the time limit has expired, but the ranks may be the last with the training state
};

// Returns what to do with a marked Pod. `marked_since`: when its mark was first seen; unset: now.
Leave JudgeLeaver(const PodView& pod, const api::TrainingJob& job, const Reports& reports,
                  std::optional<Clock::Time> marked_since, Clock::Time now);

// Returns the time until the Pod's drain limit; zero if it has expired.
std::chrono::milliseconds DrainTimeLeft(std::optional<Clock::Time> marked_since, Clock::Time now);

}  // namespace ringmaster::job
