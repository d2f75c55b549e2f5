#pragma once

// One job of real processes on hosts made of network namespaces, and what an operator does for it:
// orders, replacements, the next launcher. The chaos program strikes, the stage mends.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

#include "bench/chaos/schedule.h"
#include "bench/chaos/trail.h"
#include "common/base/result.h"
#include "tests/runtime/job.h"

namespace ringmaster::chaos {

struct StageOptions {
  int workers = 3;   // hosts for them
  int at_first = 0;  // how many train from the beginning; 0: all
  int min_replicas = 1;
  int64_t global_batch = 48;
  double cpus =
      0;  // CPU quota of each worker, so that survivors cannot use a dead one's; 0: unlimited
  std::vector<std::string> trainer_flags{};  // after the usual ones
  // A Python script that uses the package, in the place of ringmaster-train: it gets the flags
  // alone.
  std::string script{};
  runtime_test::Variables variables{};  // of each worker
  std::chrono::milliseconds lost_after{2000};
  std::chrono::seconds limit{60};  // for whatever has to happen next
};

// What every rank runs, beside where it writes its audit log.
std::vector<std::string> TrainerArguments(const StageOptions& options);

// What one fault cost, in milliseconds, from the strike where nothing else is said; -1: does not
// apply.
struct Outcome {
  double detected = -1;    // from the last sign of life until the launcher knew
  double reformed = -1;    // from then until the first step of the next world was committed
  double first_step = -1;  // until the first step of the world without the lost member
  double whole = -1;       // until the world has all its members again
  double longest_gap = 0;  // between two steps, from the strike until the world is whole
  int64_t steps_lost = 0;  // as the launcher says; the audit proves it
};

class Stage {
 public:
  // `folder` is empty and receives the audit logs. REQUIRES: Hosts::Possible().
  Stage(const StageOptions& options, std::string folder);

  // Returns when all workers train.
  Result<void> Begin();
  // Strikes, does the operator's part, and returns when the world is whole again and the launcher
  // says that another loss costs nothing. kTimeout says what did not happen.
  Result<Outcome> Strike(const Fault& fault);
  // Asks for so many of the workers (the first ones), and returns when the world is just them.
  Result<Outcome> Scale(int workers);
  // Shrinks the world to one worker and ends that.
  Result<void> End();

  Trail& trail() { return trail_; }
  std::string Log() const { return job_.Log(); }

 private:
  void Order(int workers);
  void StartWorkers(int from, int to);
  void Act(const Fault& fault);
  std::vector<pid_t> RanksOf(int worker);
  void SignalWorker(int worker, int signal);
  // Both return when the training goes on without what was struck, and its successor was started.
  Result<Outcome> ReplaceLauncher(const Applied& before);
  Result<Outcome> ReplaceLost(const Fault& fault, const Applied& before, Time struck);
  // A new Pod in a worker's place, as an operator makes it.
  void Replace(int worker);
  Result<void> AwaitWorldOf(int members);
  Result<void> AwaitProtected();
  double LongestGapSince(std::size_t known, const Applied& before) const;

  const StageOptions options_;
  runtime_test::Job job_;
  Trail trail_;
  int wanted_ = 0;
  int term_ = 1;
  std::vector<int> pods_;  // of each worker, how many there have been
};

}  // namespace ringmaster::chaos
