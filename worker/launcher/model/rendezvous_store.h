#pragma once

// The store through which the ranks of one epoch find each other: keys and values in memory, and
// requests that wait for missing keys. Reset() empties the store. Does no I/O; owned by a job.

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/control/rank_agent_messages.h"

namespace ringmaster::launcher {

class RendezvousStore {
 public:
  static constexpr std::size_t kMaxBytes = 16 << 20;  // keys, values and requests together
  static constexpr std::size_t kMaxWaiting = 1 << 16;

  // An answer, and the worker of the rank that requested it.
  struct Answer {
    std::string pod_uid;
    control::StoreValues values;
  };

  // Deletes everything and serves `epoch` from now on.
  void Reset(const control::Epoch& epoch);

  // Sets or replaces a value, and answers requests that waited only for it. Ignores other epochs.
  // kThrottled: the store is full, and the value was not stored.
  Result<std::vector<Answer>> Set(const control::StoreSet& set);

  // Answers at once if all keys exist, otherwise once all of them exist. A request with the same
  // (worker, rank, id) replaces the earlier one. Ignores other epochs. kThrottled: too many
  // requests wait, or the store is full.
  Result<std::vector<Answer>> Get(const std::string& pod_uid, const control::StoreGet& get);

 private:
  struct Asker {
    std::string pod_uid;
    control::StoreGet get;
    std::string lacks{};  // the missing key that it waits for
  };
  using AskerKey = std::pair<std::string, std::pair<int, int64_t>>;

  bool Complete(const control::StoreGet& get) const;
  Answer AnswerTo(const Asker& asker) const;
  static std::size_t BytesOf(const control::StoreGet& get);

  control::Epoch epoch_;
  std::map<std::string, std::string> values_;
  std::map<AskerKey, Asker> waiting_;
  std::map<std::string, std::set<AskerKey>> waiting_by_key_;  // by the key in Asker::lacks
  std::size_t bytes_ = 0;
};

}  // namespace ringmaster::launcher
