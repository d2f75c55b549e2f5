#pragma once

// Decides who may read a page of the operator. As in Kubernetes' components, the API server
// reviews bearer tokens (TokenReview, then SubjectAccessReview of "get" on the page's path).
// Results are cached for a while, and the number of requests to the API server is limited. Used
// for /metrics.

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "operator/kube/kube_client.h"

namespace ringmaster::runtime {

inline constexpr kube::Resource kTokenReviews{"authentication.k8s.io", "v1", "tokenreviews",
                                              "TokenReview", false};
inline constexpr kube::Resource kSubjectAccessReviews{
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", false};

enum class Access {
  kAllowed,
  kUnauthenticated,  // the token is invalid
  kForbidden,        // the token's user does not have the permission
  kBusy,             // too many unknown tokens at once; try again later
  kUnknown,          // the API server did not answer
};

struct TokenAccessOptions {
  std::string path = "/metrics";
  std::chrono::seconds allowed_for{60};
  std::chrono::seconds refused_for{10};
  // While the API server does not answer, tokens that were allowed remain allowed for this time:
  // metrics are most important during an outage.
  std::chrono::seconds allowed_unasked{600};
  std::size_t max_kept = 256;
  std::size_t max_waiting = 32;
  int strangers_per_second = 10;  // limit for reviews of tokens that were not allowed recently
};

// Thread-safe.
class TokenAccess {
 public:
  using Done = std::function<void(Access)>;

  // `client` and `clock` must outlive this object. `client` must have a separate HttpClient.
  TokenAccess(kube::KubeClient& client, const Clock& clock, TokenAccessOptions options = {});
  ~TokenAccess();  // stops

  void Start();
  // Ends the thread. Waiting and later callers get kUnknown.
  void Stop();

  // Calls `done` once: in this call if the result is cached, otherwise later on the thread.
  void Judge(const std::string& token, Done done);

  // Reviews one waiting token, as the thread does. Returns false if no token waits. For tests.
  bool JudgeOne();

 private:
  struct Kept {
    Access access = Access::kUnknown;
    Clock::Time at;
  };
  struct Waiting {
    std::string hash;
    std::string token;
    std::vector<Done> done;
  };

  void Work(std::stop_token stop);
  Access Review(const std::string& token);
  bool TakeTurnOfStranger(Clock::Time now) RINGMASTER_REQUIRES(mutex_);
  Access Keep(const std::string& hash, Access access) RINGMASTER_REQUIRES(mutex_);
  bool AllowedSince(const std::string& hash, Clock::Time since) const RINGMASTER_REQUIRES(mutex_);

  // Constant after construction.
  kube::KubeClient& client_;
  const Clock& clock_;
  const TokenAccessOptions options_;

  Mutex mutex_;
  StoppableCondVar changed_;
  std::map<std::string, Kept> kept_ RINGMASTER_GUARDED_BY(mutex_);  // by the token's hash
  std::deque<Waiting> waiting_ RINGMASTER_GUARDED_BY(mutex_);
  // The times of the last second's reviews of unknown tokens.
  std::deque<Clock::Time> strangers_ RINGMASTER_GUARDED_BY(mutex_);
  bool stopped_ RINGMASTER_GUARDED_BY(mutex_) = false;

  std::jthread thread_;
};

}  // namespace ringmaster::runtime
