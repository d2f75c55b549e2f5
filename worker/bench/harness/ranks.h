#pragma once

// Provides the ranks of a bench. If an agent started this process as the command of a TrainingJob,
// it is one of the job's ranks; otherwise it starts ranks itself as processes on this machine.
// Benches use the same code in both cases, because both provide a world.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/trainer/comm/store.h"
#include "worker/trainer/elastic/membership_source.h"

namespace ringmaster::bench {

struct RankOptions {
  int ranks = 2;  // number of ranks to start if no agent started this process
  // For ranks on simulated hosts: each rank's network namespace, and its address in the namespace.
  std::vector<std::string> namespaces{};
  std::vector<std::string> addresses{};
};

// Returns whether an agent started this process.
bool UnderAgent();

// Runs `rank_main` on every rank. Returns 0, or the exit code of the first rank that failed. A rank
// that cannot start prints a message and returns 1. Under an agent, this process is one rank.
// Otherwise it forks the ranks and must not have threads; when it exits, the ranks are killed.
int RunOnRanks(const RankOptions& options,
               const std::function<int(const trainer::World& world)>& rank_main);

// A view of a store that adds a prefix to every key. A bench that forms several worlds of the same
// ranks gives each world its own prefix, so that a world finds only its own keys.
class ScopedStore final : public trainer::Store {
 public:
  ScopedStore(std::shared_ptr<trainer::Store> whole, std::string prefix)
      : whole_(std::move(whole)), prefix_(std::move(prefix)) {}

  Result<void> Set(const std::string& key, const std::string& value) override {
    return whole_->Set(prefix_ + key, value);
  }
  Result<std::vector<std::string>> Get(const std::vector<std::string>& keys,
                                       trainer::Deadline deadline) override {
    std::vector<std::string> scoped;
    for (const std::string& key : keys) scoped.push_back(prefix_ + key);
    return whole_->Get(scoped, deadline);
  }

 private:
  const std::shared_ptr<trainer::Store> whole_;
  const std::string prefix_;
};

}  // namespace ringmaster::bench
