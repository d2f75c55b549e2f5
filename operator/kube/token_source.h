#pragma once

// Reads the bearer token of the operator's service account. The kubelet replaces the file before
// the token expires, so it is re-read at most a minute later, and at once after the server rejects
// the token. Used by KubeClient.

#include <chrono>
#include <string>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace ringmaster::kube {

// Thread-safe.
class TokenSource {
 public:
  // A token that never changes (kubeconfig), or a file that does; `file` wins when both are given.
  TokenSource(const Clock& clock, std::string fixed_token, std::string file);

  // Empty if there is none or the file cannot be read: the server will then answer 401.
  std::string Token();

  // The server refused `token`: read the file again at the next Token().
  void Drop(const std::string& token);

 private:
  static constexpr std::chrono::seconds kMaxAge{60};

  const Clock& clock_;
  const std::string file_;

  Mutex mutex_;
  std::string token_ RINGMASTER_GUARDED_BY(mutex_);
  Clock::Time read_at_ RINGMASTER_GUARDED_BY(mutex_){};
  bool valid_ RINGMASTER_GUARDED_BY(mutex_) = false;
};

}  // namespace ringmaster::kube
