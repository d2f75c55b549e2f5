#pragma once

// Provides the ranks of a bench. If an agent started this process as the command of a TrainingJob,
// it is one of the job's ranks; otherwise it starts ranks itself as processes on this machine. Both
// provide a world, so the benches are written once.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/trainer/comm/store.h"
#include "worker/trainer/elastic/membership_source.h"

namespace ringmaster::bench {

struct RankOptions {
  int ranks = 2;  // where this process starts them
  // Of each rank, where they are on hosts of their own: a network namespace, and the address in it.
  std::vector<std::string> namespaces{};
  std::vector<std::string> addresses{};
};

// Whether an agent started this process.
bool UnderAgent();

// Runs `rank_main` on every rank of the world, on one of them in this process where an agent
// started it, and returns when all have ended: the worst exit code. Ranks end with their parent,
// which must not have started threads. A rank that cannot take part says why and counts as 1.
int RunOnRanks(const RankOptions& options,
               const std::function<int(const trainer::World& world)>& rank_main);

// A part of a store, under a prefix of its own: the worlds that a bench forms one after the other
// out of the same ranks find only their own keys.
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
