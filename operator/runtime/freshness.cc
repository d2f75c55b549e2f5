#include "operator/runtime/freshness.h"

#include <utility>

#include "operator/kube/resource_version.h"

namespace ringmaster::runtime {

FreshnessGate::FreshnessGate(const Clock& clock, std::chrono::milliseconds ceiling)
    : clock_(clock), ceiling_(ceiling) {}

void FreshnessGate::Watch(const kube::Resource& resource, std::function<std::string()> last_seen) {
  last_seen_[resource.FullName()] = std::move(last_seen);
}

void FreshnessGate::Wrote(const std::string& key, const kube::Resource& resource,
                          std::string_view resource_version) {
  const std::string name = resource.FullName();
  if (!last_seen_.contains(name)) return;
  if (!kube::CompareResourceVersions(resource_version, resource_version)) return;
  const std::lock_guard lock(mutex_);
  auto& pending = pending_[key];
  const auto [entry, inserted] =
      pending.try_emplace(name, Pending{std::string(resource_version), clock_.Now()});
  if (inserted) return;
  // Requests end in any order: the highest version counts.
  if (kube::CompareResourceVersions(entry->second.resource_version, resource_version) ==
      std::strong_ordering::less) {
    entry->second = {std::string(resource_version), clock_.Now()};
  }
}

bool FreshnessGate::Fresh(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = pending_.find(key);
  if (found == pending_.end()) return true;
  std::erase_if(found->second, [this](const auto& entry) {
    const auto& [resource, pending] = entry;
    const auto order = kube::CompareResourceVersions(last_seen_.find(resource)->second(),
                                                     pending.resource_version);
    const bool seen = !order || *order != std::strong_ordering::less;
    return seen || clock_.Now() - pending.since > ceiling_;
  });
  if (!found->second.empty()) return false;
  pending_.erase(found);
  return true;
}

void FreshnessGate::Forget(const std::string& key) {
  const std::lock_guard lock(mutex_);
  pending_.erase(key);
}

}  // namespace ringmaster::runtime
