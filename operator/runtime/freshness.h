#pragma once

// Tracks whether the caches contain the operator's own writes. After each successful write, the
// reconciler records the version that the server returned, by job and resource. The Controller
// reconciles a key only when the caches have caught up, so that no object is created twice from an
// old view. Unlike expectation counters, this recovers from relists and lost events.

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
  // A key that waited longer than `ceiling` for a version passes, so that a stuck cache does not
  // block a job forever.
  explicit FreshnessGate(const Clock& clock,
                         std::chrono::milliseconds ceiling = std::chrono::minutes(5));

  // `last_seen` returns the newest version the resource's store has seen (Store::LastSeenVersion).
  // `on_late`, if there is one, is called when a write has not been seen for long, and again while
  // it is not: its watch may hang on a peer that is gone. REQUIRES: called before the Controller
  // starts.
  void Watch(const kube::Resource& resource, std::function<std::string()> last_seen,
             std::function<void()> on_late = {});

  // A write for this key succeeded and returned `resource_version`. Versions that cannot be
  // compared are ignored. A delete counts with the version of the object as it was marked or
  // removed, when the server returned one.
  void Wrote(const std::string& key, const kube::Resource& resource,
             std::string_view resource_version);

  // Returns true if every noted write of the key has been seen, and forgets those.
  bool Fresh(const std::string& key);

  void Forget(const std::string& key);  // the job is gone

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
  // When on_late was called last, by resource plural.
  std::map<std::string, Clock::Time, std::less<>> told_at_ RINGMASTER_GUARDED_BY(mutex_);
};

}  // namespace ringmaster::runtime
