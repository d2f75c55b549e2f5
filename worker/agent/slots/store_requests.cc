#include "worker/agent/slots/store_requests.h"

namespace ringmaster::agent {

bool StoreRequests::Set(const control::StoreSet& set) {
  if (const auto before = sets_.find(set.key); before != sets_.end()) {
    set_bytes_ -= before->first.size() + before->second.value.size();
    sets_.erase(before);
  }
  const std::size_t bytes = set.key.size() + set.value.size();
  if (set_bytes_ + bytes > kMaxSetBytes) return false;
  set_bytes_ += bytes;
  sets_.emplace(set.key, set);
  return true;
}

void StoreRequests::Get(const control::StoreGet& get) {
  gets_.insert_or_assign(get.id, get);
  if (gets_.size() > kMaxGets) gets_.erase(gets_.begin());
}

void StoreRequests::Answered(std::int64_t id) { gets_.erase(id); }

std::vector<control::Message> StoreRequests::All() const {
  std::vector<control::Message> all;
  for (const auto& [key, set] : sets_) all.emplace_back(set);
  for (const auto& [id, get] : gets_) all.emplace_back(get);
  return all;
}

}  // namespace ringmaster::agent
