#include "operator/runtime/freshness.h"

#include <utility>
#include <vector>

#include "operator/kube/resource_version.h"

namespace ringmaster::runtime {

namespace {

// A write's event counts as late after this time. The event usually follows within a second.
constexpr auto kLate = std::chrono::seconds(5);
// The shortest time between two calls of on_late for a resource.
constexpr auto kTellAgain = std::chrono::seconds(15);

}  // namespace

FreshnessGate::FreshnessGate(const Clock& clock, std::chrono::milliseconds ceiling)
    : clock_(clock), ceiling_(ceiling) {}

void FreshnessGate::Watch(const kube::Resource& resource, std::function<std::string()> last_seen,
                          std::function<void()> on_late) {
  watched_[resource.FullName()] = {.last_seen = std::move(last_seen),
                                   .on_late = std::move(on_late)};
}

void FreshnessGate::Wrote(const std::string& key, const kube::Resource& resource,
                          std::string_view resource_version) {
  const std::string name = resource.FullName();
  if (!watched_.contains(name)) return;
  if (!kube::CompareResourceVersions(resource_version, resource_version)) return;
  const MutexLock lock(mutex_);
  auto& pending = pending_[key];
  const auto [entry, inserted] =
      pending.try_emplace(name, Pending{std::string(resource_version), clock_.Now()});
  if (inserted) return;
  // Requests complete in any order; the highest version counts.
  if (kube::CompareResourceVersions(entry->second.resource_version, resource_version) ==
      std::strong_ordering::less) {
    entry->second = {std::string(resource_version), clock_.Now()};
  }
}

bool FreshnessGate::Seen(const Watched& watched, const Pending& pending) const {
  const auto order = kube::CompareResourceVersions(watched.last_seen(), pending.resource_version);
  return !order || *order != std::strong_ordering::less || clock_.Now() - pending.since > ceiling_;
}

bool FreshnessGate::Fresh(const std::string& key) {
  std::vector<std::function<void()>> late;
  {
    const MutexLock lock(mutex_);
    const auto found = pending_.find(key);
    if (found == pending_.end()) return true;
    std::erase_if(found->second, [this](const auto& entry) {
      return Seen(watched_.find(entry.first)->second, entry.second);
    });
    if (found->second.empty()) {
      pending_.erase(found);
      return true;
    }
    const Clock::Time now = clock_.Now();
    for (const auto& [resource, pending] : found->second) {
      const Watched& watched = watched_.find(resource)->second;
      if (!watched.on_late || now - pending.since < kLate) continue;
      Clock::Time& told_at = told_at_[resource];
      if (now - told_at < kTellAgain) continue;
      told_at = now;
      late.push_back(watched.on_late);
    }
  }
  for (const auto& on_late : late) on_late();
  return false;
}

void FreshnessGate::Forget(const std::string& key) {
  const MutexLock lock(mutex_);
  pending_.erase(key);
}

}  // namespace ringmaster::runtime
