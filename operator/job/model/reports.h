#pragma once

// The current launcher's reports about the job's workers, by Pod UID. Answers of an earlier
// launcher's Pod are ignored. Created for one plan; refers to the plan's input.

#include <chrono>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "common/base/clock.h"
#include "common/control/launcher_api.h"
#include "operator/job/model/launcher_view.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

// The poller's view of the current launcher; null if it was never asked. Valid as long as `input`,
// like the next one.
const LauncherView* PresentLauncher(const PlanInput& input);

// Null when the present launcher has not answered yet.
const control::LauncherStatus* AnswerOf(const PlanInput& input);

// There is a launcher, and this operator has not heard yet whether it answers. Within two seconds
// it has: how soon to look again.
bool NotAskedYet(const PlanInput& input);
inline constexpr std::chrono::seconds kAskFirst{1};

class Reports {
 public:
  explicit Reports(const PlanInput& input);

  // AnswerOf the input.
  const control::LauncherStatus* answer() const { return answer_; }
  // When the launcher gave its first answer; unset if it was never asked.
  std::optional<Clock::Time> answered_since() const { return answered_since_; }
  // Null when the launcher says nothing about the Pod.
  const control::WorkerReport* Find(std::string_view pod_uid) const;
  // The slowdown of the Pod's slowest straggler relative to its peers, as a factor; 0: it has none.
  double Slowness(std::string_view pod_uid) const;
  // True when the launcher answered the last question.
  bool current() const { return current_; }

  // For a job with workers on their way out, so that each of them needs no look at all others.
  // The launcher's newest order that it has answered is known, and does not have the Pod.
  bool ExcludedByOrder(std::string_view pod_uid) const {
    return order_known_ && !ordered_.contains(pod_uid);
  }
  // A worker that stays trains, as the launcher said just now.
  bool others_train() const { return others_train_; }

 private:
  const control::LauncherStatus* answer_;
  std::optional<Clock::Time> answered_since_;
  std::unordered_map<std::string_view, const control::WorkerReport*> by_uid_;
  std::unordered_map<std::string_view, double> slowness_;
  std::unordered_set<std::string_view> ordered_;
  bool order_known_ = false;
  bool current_ = false;
  bool others_train_ = false;
};

}  // namespace ringmaster::job
