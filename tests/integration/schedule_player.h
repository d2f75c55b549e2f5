#pragma once

// The fixture of schedule_test.cc and soak_test.cc. Plays schedules one after the other with one
// operator, and checks the results: every job must reach its goal with only the expected objects,
// each created once, and with a bounded number of requests.

#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/integration/cluster_test.h"
#include "tests/integration/schedule.h"

namespace ringmaster::testing {

// Makes the next `requests` requests fail, and then none. Thread-safe.
class Burst {
 public:
  void Begin(RequestFault fault, int requests);
  void End() { Begin(RequestFault::kConflict, 0); }
  Fault Decide(const ProxiedRequest& request);

 private:
  std::mutex mutex_;
  RequestFault fault_ = RequestFault::kConflict;  // guarded by mutex_, like left_
  int left_ = 0;
};

class SchedulePlayer : public ClusterTest {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Plays one schedule and prints a line about it. Leaves the namespace empty.
  void Play(const Schedule& schedule);

 private:
  void Do(const ScheduleStep& step);
  void Finish(const ScheduleStep& step);
  void LoseLauncher(const std::string& job);
  void AwaitName(const std::string& name);
  void Settle();
  void Check(std::chrono::steady_clock::duration took);
  void Clear();

  const std::string& Name(const ScheduleStep& step) const {
    return names_[static_cast<std::size_t>(step.job)];
  }
  const JobGoal& Goal(const ScheduleStep& step) const {
    return goals_[static_cast<std::size_t>(step.job)];
  }
  std::string Uid(const std::string& pod);
  std::string Launcher(const std::string& job);
  // Returns the job's Pods that have not ended. Ended Pods are kept for their logs.
  std::set<std::string> Live(const std::string& job, const std::string& role);
  std::string Unsettled(const std::string& name, const JobGoal& goal);

  Burst burst_;
  std::vector<std::string> names_;
  std::set<std::string> deleted_;  // UIDs of deleted jobs
  Goals goals_;
};

}  // namespace ringmaster::testing
