#pragma once

// A part of a store, under a prefix of its own: the worlds that a bench forms one after the other
// out of the same ranks find only their own keys.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/trainer/store.h"

namespace ringmaster::bench {

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
