#include "worker/launcher/model/rendezvous_store.h"

#include <algorithm>
#include <utility>

#include "common/base/byte_text.h"
#include "common/base/count_text.h"

namespace ringmaster::launcher {

std::size_t RendezvousStore::LimitFor(int ranks) {
  const auto count = static_cast<std::size_t>(std::min(ranks, kMaxGlooRanks + 1));
  return std::min(kMaxBytes, kBaseBytes + kBytesPerPair * count * count);
}

void RendezvousStore::Reset(const control::Epoch& epoch, int ranks) {
  epoch_ = epoch;
  ranks_ = ranks;
  refusal_.clear();
  values_.clear();
  waiting_.clear();
  waiting_by_key_.clear();
  bytes_ = 0;
}

std::vector<RendezvousStore::Answer> RendezvousStore::Set(const control::StoreSet& set) {
  std::vector<Answer> answers;
  if (set.epoch != epoch_) return answers;
  const auto found = values_.find(set.key);
  const std::size_t before = found == values_.end() ? 0 : set.key.size() + found->second.size();
  const std::size_t after = set.key.size() + set.value.size();
  if (bytes_ - before + after > LimitFor(ranks_)) {
    RefuseAsFull();
    return answers;
  }
  bytes_ = bytes_ - before + after;
  values_[set.key] = set.value;

  const auto node = waiting_by_key_.extract(set.key);
  if (node.empty()) return answers;
  for (const AskerKey& key : node.mapped()) {
    Asker& asker = waiting_.at(key);
    if (Complete(asker)) {
      answers.push_back(AnswerTo(asker));
      bytes_ -= BytesOf(asker.get);
      waiting_.erase(key);
    } else {
      waiting_by_key_[asker.get.keys[asker.missing]].insert(key);
    }
  }
  return answers;
}

std::vector<RendezvousStore::Answer> RendezvousStore::Get(const std::string& pod_uid,
                                                          const control::StoreGet& get) {
  if (get.epoch != epoch_) return {};
  Asker asker{pod_uid, get};
  const AskerKey key{pod_uid, {get.rank, get.id}};
  if (const auto before = waiting_.extract(key); !before.empty()) {
    bytes_ -= BytesOf(before.mapped().get);
    waiting_by_key_.at(before.mapped().get.keys[before.mapped().missing]).erase(key);
  }
  if (Complete(asker)) return {AnswerTo(asker)};
  if (waiting_.size() >= kMaxWaiting || bytes_ + BytesOf(get) > LimitFor(ranks_)) {
    RefuseAsFull();
    return {{pod_uid, {get.epoch, get.id, get.rank, {}}}};
  }
  bytes_ += BytesOf(get);
  waiting_by_key_[get.keys[asker.missing]].insert(key);
  waiting_.emplace(key, std::move(asker));
  return {};
}

// Returns whether all keys exist. Searches only from the last missing key on.
bool RendezvousStore::Complete(Asker& asker) const {
  const std::vector<std::string>& keys = asker.get.keys;
  while (asker.missing < keys.size() && values_.contains(keys[asker.missing])) ++asker.missing;
  return asker.missing == keys.size();
}

// Returns the number of bytes that a request uses. An empty key also needs memory.
std::size_t RendezvousStore::BytesOf(const control::StoreGet& get) {
  std::size_t bytes = 0;
  for (const std::string& name : get.keys) bytes += sizeof(name) + name.size();
  return bytes;
}

// Answers without values if they do not fit into a message. A key may be requested several times.
RendezvousStore::Answer RendezvousStore::AnswerTo(const Asker& asker) {
  constexpr std::size_t kBytesOfAValue = 8;  // quotes, comma and padding, less a third for base64
  Answer answer{asker.pod_uid, {asker.get.epoch, asker.get.id, asker.get.rank, {}}};
  std::size_t bytes = 0;
  for (const std::string& name : asker.get.keys) bytes += values_.at(name).size() + kBytesOfAValue;
  if (bytes > kMaxAnswerBytes) {
    refusal_ = "rank " + std::to_string(asker.get.rank) +
               " requested more values from the rendezvous store than fit into one message (" +
               BytesText(static_cast<int64_t>(kMaxAnswerBytes)) +
               "); set smaller values, or request fewer at once";
    return answer;
  }
  for (const std::string& name : asker.get.keys) answer.values.values.push_back(values_.at(name));
  return answer;
}

void RendezvousStore::RefuseAsFull() {
  refusal_ = "the addresses and other values that the ranks store in the launcher need more than " +
             BytesText(static_cast<int64_t>(LimitFor(ranks_))) + ", the limit for " +
             CountText(ranks_, "rank") + "; ";
  refusal_ += ranks_ > kMaxGlooRanks
                  ? "Gloo can connect at most " + std::to_string(kMaxGlooRanks) +
                        " ranks: reduce spec.worker.replicas, or train on GPUs with NCCL"
                  : "set fewer or smaller values";
}

}  // namespace ringmaster::launcher
