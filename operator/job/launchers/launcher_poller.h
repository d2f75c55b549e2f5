#pragma once

// Polls the launchers of all live jobs, separately from the reconcile workers. It sends each
// launcher its order when the order changes and otherwise asks for its status, keeps the latest
// answer, and calls back when the answer changes. One thread serves all jobs: every exchange is
// asynchronous, has a deadline and a size limit, and uses TLS pinned to the job's certificate.
// Plans interpret the answers.
//
//   LauncherPoller poller(clock, [&](const std::string& job_key) { queue.Add(job_key); });
//   poller.Watch({.job_key = ..., .pod_ip = ..., .order = ...});  // on every reconcile
//   const std::optional<LauncherView> view = poller.Latest(job_uid);

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/control/launcher_api.h"
#include "common/control/pod_contract.h"
#include "operator/job/credentials/credentials.h"
#include "operator/job/model/launcher_view.h"

namespace ringmaster::job {

// A launcher Pod, the credentials for the connection to it, and its order.
struct LauncherTarget {
  std::string job_key;
  std::string job_uid;
  std::string pod_uid;
  std::string pod_ip;
  std::shared_ptr<const Credentials> credentials;
  control::Order order;
  bool answered_before = false;  // whether an earlier operator recorded a world of the job
};

struct LauncherPollerOptions {
  int port = control::kApiPort;
  std::chrono::milliseconds deadline{2000};       // limit of one exchange, including the connect
  std::chrono::milliseconds first_retry{100};     // delay of retries before the first answer
  std::chrono::milliseconds retry{1000};          // delay of all other retries
  std::chrono::milliseconds busy_period{500};     // poll period in all phases but Running
  std::chrono::milliseconds steady_period{1000};  // poll period in the phase Running
  int most_per_second = 10;                       // exchanges with one launcher
};

// Thread-safe.
class LauncherPoller {
 public:
  // Calls `on_news` on the poller's thread when an answer differs from the previous one, when a
  // launcher stops answering, and repeatedly while it does not answer. `on_news` must only enqueue
  // a key. `clock` must outlive the poller.
  LauncherPoller(const Clock& clock, std::function<void(const std::string& job_key)> on_news,
                 LauncherPollerOptions options = {});
  ~LauncherPoller();  // ends all exchanges and joins the thread

  void Watch(LauncherTarget target);
  void Forget(const std::string& job_uid);

  // Returns nothing until the first exchange with the job's current launcher has ended.
  std::optional<LauncherView> Latest(const std::string& job_uid) const;
  // Counts the launchers that do not answer. If many do not, the operator's network may be broken.
  LaunchersHeard Heard(const std::string& ns) const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ringmaster::job
