#pragma once

// Runs one job of real processes on hosts made of network namespaces, injects faults, and acts as
// the operator: it sends orders, replaces workers and starts the next launcher.

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
  int workers = 3;   // number of hosts for workers
  int at_first = 0;  // number of workers at the beginning; 0: all
  int min_replicas = 1;
  int64_t global_batch = 48;
  double cpus = 0;  // CPU quota per worker, so that survivors cannot use a dead worker's; 0: none
  std::vector<std::string> trainer_flags{};  // flags that are added to the default flags
  // A Python script that uses the package and runs instead of ringmaster-train, with only the
  // trainer_flags.
  std::string script{};
  runtime_test::Variables variables{};  // environment variables of each worker
  std::chrono::milliseconds lost_after{2000};
  std::chrono::seconds limit{60};  // the maximum wait for each expected event
};

// Returns the command line of every rank, without the path of the rank's audit log.
std::vector<std::string> TrainerArguments(const StageOptions& options);

// The cost of one fault in milliseconds, measured from the fault unless stated otherwise; -1: does
// not apply.
struct Outcome {
  double detected = -1;    // from the last sign of life until the launcher detected the loss
  double reformed = -1;    // from detection until the next world committed its first step
  double first_step = -1;  // until the first step of the world without the lost member
  double whole = -1;       // until the world has all its members again
  double longest_gap = 0;  // the longest time between two steps until all members are back
  int64_t steps_lost = 0;  // number that the launcher reports and the audit checks
};

class Stage {
 public:
  // `folder` must be empty; it receives the audit logs. REQUIRES: Hosts::Possible().
  Stage(const StageOptions& options, std::string folder);

  // Returns when all workers are training.
  Result<void> Begin();
  // Injects the fault, acts as the operator, and returns when the world is complete and the
  // launcher reports that the state is protected again. kTimeout names the event that is late.
  Result<Outcome> Strike(const Fault& fault);
  // Sends an order for the first `workers` workers. Returns when they alone form the world.
  Result<Outcome> Scale(int workers);
  // Shrinks the world to one worker and then ends that worker.
  Result<void> End();

  Trail& trail() { return trail_; }
  std::string Log() const { return job_.Log(); }

 private:
  void Order(int workers);
  void StartWorkers(int from, int to);
  void Act(const Fault& fault);
  std::vector<pid_t> RanksOf(int worker);
  void SignalWorker(int worker, int signal);
  // Wait until training continues without the lost process. Start its replacement.
  Result<Outcome> ReplaceLauncher(const Applied& before);
  Result<Outcome> ReplaceLost(const Fault& fault, const Applied& before, Time struck);
  // Creates a new Pod in a worker's place, as the operator would.
  void Replace(int worker);
  Result<void> AwaitWorldOf(int members);
  Result<void> AwaitProtected();
  double LongestGapSince(std::size_t known, const Applied& before) const;

  const StageOptions options_;
  runtime_test::Job job_;
  Trail trail_;
  int wanted_ = 0;
  int term_ = 1;
  std::vector<int> pods_;  // for each worker: the number of Pods created so far
};

}  // namespace ringmaster::chaos
