#pragma once

// The current launcher's reports about the job's workers, by Pod UID. Answers of earlier launchers
// are ignored. A Reports object is created for one plan and refers to the plan's input.

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

// Returns the poller's view of the current launcher, or null if it was never polled. The pointers
// that this function and AnswerOf() return are valid as long as `input`.
const LauncherView* PresentLauncher(const PlanInput& input);

// Returns the current launcher's newest status, or null if it has not answered yet.
const control::LauncherStatus* AnswerOf(const PlanInput& input);

// Returns true if a launcher runs but this operator has not polled it yet. The first poll ends
// within two seconds, so the plan is repeated after kAskFirst.
bool NotAskedYet(const PlanInput& input);
inline constexpr std::chrono::seconds kAskFirst{1};

class Reports {
 public:
  explicit Reports(const PlanInput& input);

  // Returns AnswerOf() of the plan's input.
  const control::LauncherStatus* answer() const { return answer_; }
  // Returns when the launcher answered for the first time; unset if it has not answered.
  std::optional<Clock::Time> answered_since() const { return answered_since_; }
  // Returns the launcher's report on the Pod, or null if there is none.
  const control::WorkerReport* Find(std::string_view pod_uid) const;
  // Returns the slowdown factor of the Pod's slowest straggler relative to its peers; 0: none.
  double Slowness(std::string_view pod_uid) const;
  // Returns true if the launcher answered the latest poll.
  bool current() const { return current_; }

  // Returns true if the last order that the launcher acknowledged does not contain the Pod. The set
  // of ordered Pods is built only for jobs with leaving workers.
  bool ExcludedByOrder(std::string_view pod_uid) const {
    return order_known_ && !ordered_.contains(pod_uid);
  }
  // Returns true if the launcher's latest status shows a worker that trains and is not leaving.
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
