#pragma once

// Records a rank's requests to the rendezvous store of its epoch and replays the requests to a new
// launcher, whose store is empty. The record has a limit: requests beyond it reach the current
// launcher but are not replayed. Does no I/O; used by elastic_slots.h.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/control/messages.h"

namespace ringmaster::agent {

class StoreRequests {
 public:
  static constexpr std::size_t kMaxSetBytes = 4 << 20;  // limit on keys and values together
  static constexpr std::size_t kMaxGets = 16;           // unanswered gets; the oldest is dropped

  // Replaces the key's earlier value. If the record is full, drops the value and returns false.
  [[nodiscard]] bool Set(const control::StoreSet& set);
  void Get(const control::StoreGet& get);
  void Answered(std::int64_t id);
  // Removes all gets, because their answers are no longer needed.
  void ForgetGets() { gets_.clear(); }

  // Returns the requests to replay: first those that set values.
  std::vector<control::Message> All() const;

 private:
  std::map<std::string, control::StoreSet> sets_;   // by key
  std::map<std::int64_t, control::StoreGet> gets_;  // by id, which increases
  std::size_t set_bytes_ = 0;
};

}  // namespace ringmaster::agent
