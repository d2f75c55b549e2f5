#include "operator/kube/warning_log.h"

#include "common/base/log.h"

namespace ringmaster::kube {

void WarningLog::Note(std::string_view header) {
  {
    const MutexLock lock(mutex_);
    if (seen_.contains(header) || seen_.size() >= kMaxRemembered) return;
    seen_.emplace(header);
  }
  LogWarn("The API server sent a warning", {{"warning", header}});
}

std::size_t WarningLog::seen() const {
  const MutexLock lock(mutex_);
  return seen_.size();
}

}  // namespace ringmaster::kube
