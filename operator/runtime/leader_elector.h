#pragma once

// Leader election with a coordination.k8s.io/v1 Lease, so that only one of several operators acts.
// The expiry counts from when this process saw the record change; times in the record are not used.
// Each update contains the resourceVersion, so one of two competing updates gets a conflict. Orders
// to launchers contain term(), so that launchers can reject a former leader. A program that loses
// the lease ends immediately (on_lost).

#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <stop_token>
#include <string>
#include <thread>

#include <nlohmann/json_fwd.hpp>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/result.h"
#include "operator/kube/kube_client.h"

namespace ringmaster::runtime {

struct LeaderElectorOptions {
  std::string ns{};
  std::string name = "ringmaster-operator";
  std::string identity{};  // Pod name and a random part, different for every process
  std::chrono::milliseconds lease_duration{4000};
  std::chrono::milliseconds renew_deadline{3000};
  std::chrono::milliseconds retry_period{1000};
};

// Returns kInvalid unless lease_duration > renew_deadline > 1.2 * retry_period > 0.
Result<void> Validate(const LeaderElectorOptions& options);

class LeaderElector {
 public:
  struct Callbacks {
    std::function<void(int64_t term)> on_elected;  // on the elector's thread; must return quickly
    std::function<void(const std::string& why)>
        on_lost;  // must end this run of the program instead of returning to its caller
  };

  // `client` must have an HttpClient that nothing else uses. It and `clock` must outlive the
  // elector.
  LeaderElector(kube::KubeClient& client, const Clock& clock, LeaderElectorOptions options,
                Callbacks callbacks);
  ~LeaderElector();  // stops without releasing

  void Start();
  // Ends the thread and, if this process leads, releases the lease, so that a standby takes over
  // immediately. Call it after the workers have stopped. Does not call on_lost.
  void StopAndRelease();

  bool IsLeader() const { return leading_; }
  // Returns the resourceVersion with which this process acquired the lease. The term is higher than
  // that of all earlier leaders, even if the lease was deleted and re-created, and does not depend
  // on clocks. Valid only if IsLeader().
  int64_t term() const { return term_; }

  // Tries once to acquire or renew the lease, as the thread does in a loop. Returns the time until
  // the next try. For tests.
  std::chrono::milliseconds Step();

 private:
  struct Record {  // the last observed lease
    std::string holder;
    int64_t transitions = 0;
    std::chrono::milliseconds duration{0};
    std::string resource_version;
    std::string acquire_time;
  };

  void Work(std::stop_token stop);
  std::chrono::milliseconds TryLimit() const;
  Result<void> TryAcquireOrRenew();
  Result<void> CreateLease();
  Result<void> Observe(const nlohmann::json& lease);
  Result<void> UpdateLease(bool renew);
  Result<void> Became(Clock::Time started);
  void Lost(const std::string& why);
  nlohmann::json LeaseJson(const std::string& holder, std::chrono::milliseconds duration,
                           int64_t transitions, const std::string& acquire_time) const;

  // Constant after construction.
  kube::KubeClient& client_;
  const Clock& clock_;
  const LeaderElectorOptions options_;
  const Callbacks callbacks_;

  std::atomic<bool> leading_{false};
  std::atomic<int64_t> term_{0};

  // Used only by the elector's thread, or by a test that calls Step().
  Record record_;
  Clock::Time observed_at_{};  // when this process saw record_ change
  Clock::Time renewed_at_{};   // start of the last successful renewal
  std::string trouble_;        // error of the last try; logged when it changes
  std::minstd_rand random_{std::random_device{}()};

  Mutex mutex_;
  StoppableCondVar wake_;
  std::jthread thread_;
};

}  // namespace ringmaster::runtime
