#include "operator/job/controller/node_changes.h"

#include <set>

namespace ringmaster::job {

std::vector<std::string> NodeChanges::JobsToLookAt(const std::string& name) {
  const NodePtr now = nodes_.Get(name);
  const auto last = last_.find(name);
  if (now == nullptr) {
    if (last == last_.end()) return {};
    last_.erase(last);
  } else {
    NodeView ordinary;
    ordinary.name = name;
    ordinary.addresses = now->addresses;
    ordinary.extended_resources = now->extended_resources;
    const bool same = *now == (last == last_.end() ? ordinary : last->second);
    last_[name] = *now;
    if (same) return {};
  }
  std::set<std::string> owners;
  for (const PodPtr& pod : pods_.List()) {
    if (pod->node == name) owners.insert(pod->owner_uid);
  }
  std::vector<std::string> keys;
  if (owners.empty()) return keys;
  for (const auto& job : jobs_.List()) {
    if (owners.contains(job->uid)) keys.push_back(job->Key());
  }
  return keys;
}

}  // namespace ringmaster::job
