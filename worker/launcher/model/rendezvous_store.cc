#include "worker/launcher/model/rendezvous_store.h"

#include <algorithm>
#include <utility>

namespace ringmaster::launcher {

void RendezvousStore::Reset(const control::Epoch& epoch) {
  epoch_ = epoch;
  values_.clear();
  waiting_.clear();
  waiting_by_key_.clear();
  bytes_ = 0;
}

Result<std::vector<RendezvousStore::Answer>> RendezvousStore::Set(const control::StoreSet& set) {
  std::vector<Answer> answers;
  if (set.epoch != epoch_) return answers;
  const auto found = values_.find(set.key);
  const std::size_t before = found == values_.end() ? 0 : set.key.size() + found->second.size();
  const std::size_t after = set.key.size() + set.value.size();
  if (bytes_ - before + after > kMaxBytes) {
    return Error{ErrorKind::kThrottled,
                 "the rendezvous store is full (" + std::to_string(bytes_) + " bytes)"};
  }
  bytes_ = bytes_ - before + after;
  values_[set.key] = set.value;

  const auto node = waiting_by_key_.extract(set.key);
  if (node.empty()) return answers;
  for (const AskerKey& key : node.mapped()) {
    Asker& asker = waiting_.at(key);
    if (Complete(asker.get)) {
      answers.push_back(AnswerTo(asker));
      bytes_ -= BytesOf(asker.get);
      waiting_.erase(key);
    } else {
      const auto missing =
          std::find_if(asker.get.keys.begin(), asker.get.keys.end(),
                       [this](const std::string& name) { return !values_.contains(name); });
      asker.lacks = *missing;
      waiting_by_key_[*missing].insert(key);
    }
  }
  return answers;
}

Result<std::vector<RendezvousStore::Answer>> RendezvousStore::Get(const std::string& pod_uid,
                                                                  const control::StoreGet& get) {
  if (get.epoch != epoch_) return std::vector<Answer>{};
  Asker asker{pod_uid, get};
  const AskerKey key{pod_uid, {get.rank, get.id}};
  if (const auto before = waiting_.extract(key); !before.empty()) {
    bytes_ -= BytesOf(before.mapped().get);
    waiting_by_key_.at(before.mapped().lacks).erase(key);
  }
  if (Complete(get)) return std::vector<Answer>{AnswerTo(asker)};
  if (waiting_.size() >= kMaxWaiting) {
    return Error{ErrorKind::kThrottled, "too many ranks are waiting for the rendezvous store"};
  }
  if (bytes_ + BytesOf(get) > kMaxBytes) {
    return Error{ErrorKind::kThrottled,
                 "the rendezvous store is full (" + std::to_string(bytes_) + " bytes)"};
  }
  bytes_ += BytesOf(get);
  const auto missing =
      std::find_if(get.keys.begin(), get.keys.end(),
                   [this](const std::string& name) { return !values_.contains(name); });
  waiting_by_key_[*missing].insert(key);
  asker.lacks = *missing;
  waiting_.emplace(key, std::move(asker));
  return std::vector<Answer>{};
}

bool RendezvousStore::Complete(const control::StoreGet& get) const {
  return std::all_of(get.keys.begin(), get.keys.end(),
                     [this](const std::string& name) { return values_.contains(name); });
}

// Returns the number of bytes that a request uses. An empty key also needs memory.
std::size_t RendezvousStore::BytesOf(const control::StoreGet& get) {
  std::size_t bytes = 0;
  for (const std::string& name : get.keys) bytes += sizeof(name) + name.size();
  return bytes;
}

RendezvousStore::Answer RendezvousStore::AnswerTo(const Asker& asker) const {
  Answer answer{asker.pod_uid, {asker.get.epoch, asker.get.id, asker.get.rank, {}}};
  for (const std::string& name : asker.get.keys) answer.values.values.push_back(values_.at(name));
  return answer;
}

}  // namespace ringmaster::launcher
