#pragma once

// Leader election with a coordination.k8s.io/v1 Lease, so that only one of several operators acts.
// Expiry depends on when this process saw the record change, never on the times in it. Each update
// contains the resourceVersion, so one of two competing updates gets a conflict. Orders to
// launchers contain term(), by which launchers reject a former leader. Losing the lease is final:
// the process exits at once (OnLost), and the kubelet restarts it.

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
  std::string identity{};  // Pod name + random, different for every process
  std::chrono::milliseconds lease_duration{4000};
  std::chrono::milliseconds renew_deadline{3000};
  std::chrono::milliseconds retry_period{1000};
};

// kInvalid with a sentence unless lease_duration > renew_deadline > 1.2 * retry_period > 0.
Result<void> Validate(const LeaderElectorOptions& options);

class LeaderElector {
 public:
  struct Callbacks {
    std::function<void(int64_t term)> on_elected;  // on the elector's thread; must return soon
    std::function<void(const std::string& why)>
        on_lost;  // must end the process instead of returning to its caller
  };

  // `client` has its own HttpClient (nothing else may hold its slots); it and `clock` outlive the
  // elector.
  LeaderElector(kube::KubeClient& client, const Clock& clock, LeaderElectorOptions options,
                Callbacks callbacks);
  ~LeaderElector();  // stops without releasing

  void Start();
  // Ends the thread and, when we lead, gives the lease up so that a standby takes over at once.
  // Call when workers are drained. on_lost is not called.
  void StopAndRelease();

  bool IsLeader() const { return leading_; }
  // The resourceVersion with which we took the lease: above that of every leader before, also where
  // the lease was deleted and made again, and whatever the clocks say. Meaningless unless
  // IsLeader().
  int64_t term() const { return term_; }

  // One try to acquire or renew; returns how long to wait for the next. What the thread does in a
  // loop; for tests.
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

  // The elector's thread only (or the test that calls Step).
  Record record_;
  Clock::Time observed_at_{};  // when record_ last changed, by our clock
  Clock::Time renewed_at_{};   // start of the last successful renewal
  std::string trouble_;        // of the last try, logged when it changes
  std::minstd_rand random_{std::random_device{}()};

  Mutex mutex_;
  StoppableCondVar wake_;
  std::jthread thread_;
};

}  // namespace ringmaster::runtime
