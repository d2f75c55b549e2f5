#pragma once

// Tracks whether the caches contain the operator's own writes. After each successful write, the
// reconciler records the version that the server returned, by job and resource. The Controller
// reconciles a key only when the caches have caught up, so that no object is created twice because
// of an old view. Unlike expectation counters, the gate recovers from relists and lost events.

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "operator/kube/resource.h"

namespace ringmaster::runtime {

// Thread-safe.
class FreshnessGate {
 public:
  // A key that has waited longer than `ceiling` for a version counts as fresh, so that a cache that
  // is not updated does not block a job forever.
  explicit FreshnessGate(const Clock& clock,
                         std::chrono::milliseconds ceiling = std::chrono::minutes(5));

  // Adds a resource. `last_seen` returns the newest version that the resource's store has seen
  // (Store::LastSeenVersion). `on_late`, if set, is called repeatedly while a write has not been
  // seen for a long time, because the connection of the watch may be dead. REQUIRES: called before
  // the Controller starts.
  void Watch(const kube::Resource& resource, std::function<std::string()> last_seen,
             std::function<void()> on_late = {});

  // Records that a write for this key succeeded and returned `resource_version`. Ignores versions
  // that cannot be compared. For a delete, pass the version that KubeClient::Delete() returned, if
  // it returned one.
  void Wrote(const std::string& key, const kube::Resource& resource,
             std::string_view resource_version);

  // Returns true if all recorded writes of the key have been seen, and removes them.
  bool Fresh(const std::string& key);

  void Forget(const std::string& key);  // call it when the job is gone

 private:
  struct Pending {
    std::string resource_version;
    Clock::Time since;
  };
  struct Watched {
    std::function<std::string()> last_seen;
    std::function<void()> on_late;
  };

  bool Seen(const Watched& watched, const Pending& pending) const;

  // Constant once the Controller runs.
  const Clock& clock_;
  const std::chrono::milliseconds ceiling_;
  std::map<std::string, Watched, std::less<>> watched_;  // by resource plural

  Mutex mutex_;
  std::unordered_map<std::string, std::map<std::string, Pending, std::less<>>> pending_
      RINGMASTER_GUARDED_BY(mutex_);
  // When on_late was last called, by resource plural.
  std::map<std::string, Clock::Time, std::less<>> told_at_ RINGMASTER_GUARDED_BY(mutex_);
};

}  // namespace ringmaster::runtime
