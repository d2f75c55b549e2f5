#pragma once

// Logs the API server's Warning headers (deprecated versions, unknown fields, Pod Security hints).
// Logs each text only once. Used by KubeClient. Thread-safe.

#include <set>
#include <string>
#include <string_view>

#include "common/base/mutex.h"

namespace ringmaster::kube {

class WarningLog {
 public:
  // Logs `header`, the value of one or more Warning headers: 299 - "text"[, 299 - "text"].
  void Note(std::string_view header);

  std::size_t seen() const;

 private:
  static constexpr std::size_t kMaxRemembered = 200;

  mutable Mutex mutex_;
  std::set<std::string, std::less<>> seen_ RINGMASTER_GUARDED_BY(mutex_);
};

}  // namespace ringmaster::kube
