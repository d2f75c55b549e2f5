#pragma once

// The store through which the ranks of one epoch find each other: keys and values in memory, and
// requests that wait for missing keys. Reset() empties the store. A value or request that is too
// large is refused, and refusal() says why. Does no I/O; owned by a job.

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/control/rank_agent_messages.h"

namespace ringmaster::launcher {

class RendezvousStore {
 public:
  // The limits on keys, values and requests together: LimitFor() a world, and the highest limit.
  // Gloo needs about 200 bytes for each pair of ranks.
  static constexpr std::size_t kBaseBytes = 16 << 20;
  static constexpr std::size_t kBytesPerPair = 256;
  static constexpr std::size_t kMaxBytes = 256 << 20;
  static constexpr int kMaxGlooRanks = 991;  // the largest world with less than the highest limit
  static constexpr std::size_t kMaxWaiting = 1 << 16;
  static constexpr std::size_t kMaxAnswerBytes = 11
                                                 << 20;  // a message with its base64: kMaxLineBytes

  static std::size_t LimitFor(int ranks);

  // An answer, and the worker of the rank that requested it.
  struct Answer {
    std::string pod_uid;
    control::StoreValues values;
  };

  // Deletes everything and serves `epoch`, a world of `ranks` ranks, from now on.
  void Reset(const control::Epoch& epoch, int ranks);

  // Sets or replaces a value, and answers requests that waited only for it. Ignores other epochs.
  // If the store is full, the value is refused.
  std::vector<Answer> Set(const control::StoreSet& set);

  // Answers at once if all keys exist, otherwise once all of them exist. A request with the same
  // (worker, rank, id) replaces the earlier one. Ignores other epochs. A refused request is
  // answered without values.
  std::vector<Answer> Get(const std::string& pod_uid, const control::StoreGet& get);

  // Returns why a value or request of this world was refused, for users; empty: none was.
  const std::string& refusal() const { return refusal_; }

 private:
  struct Asker {
    std::string pod_uid;
    control::StoreGet get;
    std::size_t missing = 0;  // the index of the first missing key; values are never deleted
  };
  using AskerKey = std::pair<std::string, std::pair<int, int64_t>>;

  bool Complete(Asker& asker) const;
  Answer AnswerTo(const Asker& asker);
  void RefuseAsFull();
  static std::size_t BytesOf(const control::StoreGet& get);

  control::Epoch epoch_;
  std::map<std::string, std::string> values_;
  std::map<AskerKey, Asker> waiting_;
  std::map<std::string, std::set<AskerKey>> waiting_by_key_;  // by Asker::missing
  int ranks_ = 0;
  std::size_t bytes_ = 0;
  std::string refusal_;
};

}  // namespace ringmaster::launcher
