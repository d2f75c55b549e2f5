#pragma once

// Reads the bearer token of the operator's service account. The kubelet replaces the file before
// the token expires, so the file is read again after a minute, and immediately if the server
// rejects the token. Used by KubeClient.

#include <chrono>
#include <string>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace ringmaster::kube {

// Thread-safe.
class TokenSource {
 public:
  // Uses a fixed token (from a kubeconfig), or the token in a file if `file` is not empty.
  TokenSource(const Clock& clock, std::string fixed_token, std::string file);

  // Returns the token; empty if there is none or if the file cannot be read.
  std::string Token();

  // Call it when the server has rejected `token`. The next Token() reads the file again.
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
