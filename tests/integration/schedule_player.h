#pragma once

// Plays schedules, one after the other under one operator, and checks what they come to: every job
// what was asked of it, with its own objects and no others, each made once, and with a bounded
// number of requests. The fixture of schedule_test.cc and soak_test.cc.

#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/integration/cluster_test.h"
#include "tests/integration/schedule.h"

namespace ringmaster::testing {

// The environment's number under this name.
uint64_t NumberFrom(const char* variable, uint64_t otherwise);

// Breaks the next requests, and then none. Thread-safe.
class Burst {
 public:
  void Begin(RequestFault fault, int requests);
  void End() { Begin(RequestFault::kConflict, 0); }
  Fault Decide(const ProxiedRequest& request);

 private:
  std::mutex mutex_;
  RequestFault fault_ = RequestFault::kConflict;  // guarded by mutex_, as the next
  int left_ = 0;
};

class SchedulePlayer : public ClusterTest {
 protected:
  void SetUp() override;
  void TearDown() override;

  // A line of it is printed; afterwards the namespace is empty.
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
  // For the job's Pods, those that have not ended: those that have stay for their logs.
  std::set<std::string> Live(const std::string& job, const std::string& role);
  std::string Unsettled(const std::string& name, const JobGoal& goal);

  Burst burst_;
  std::vector<std::string> names_;
  std::set<std::string> deleted_;  // jobs, by UID
  Goals goals_;
};

}  // namespace ringmaster::testing
