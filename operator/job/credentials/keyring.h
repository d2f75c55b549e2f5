#pragma once

// The seeds of all jobs' keys, stored in the Secret "ringmaster-keyring" in the operator's
// namespace (ADR 8). The keyring creates the Secret if it is missing, and reads it by this name
// only. The entry "current" contains the id of the seed for new jobs; every other entry is a seed,
// named by its id. Manifests do not contain the Secret. Used by the reconciler.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include <nlohmann/json_fwd.hpp>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/result.h"
#include "operator/job/credentials/credentials.h"
#include "operator/kube/kube_client.h"

namespace ringmaster::job {

// Thread-safe. Reads the Secret when a seed is first asked for, when an unknown id comes up, and
// from then on every half minute, so that a rotated seed is found; keeps what it read.
class Keyring {
 public:
  // `client` and `clock` outlive the keyring. `ns` is the operator's namespace.
  Keyring(kube::KubeClient& client, const Clock& clock, std::string ns);

  // Refreshes every `interval` on a thread of its own, until destruction, so that new jobs do not
  // wait for the API server.
  void Start(std::chrono::milliseconds interval = std::chrono::seconds(30));

  // The seed for a new job, read at most a minute ago. Creates the Secret if it does not exist;
  // blocks on the API server the first time, and when nothing was read for a minute.
  Result<Seed> Current();

  // The seed that a job's Service names. kNotFound, with what to do, when the keyring does not have
  // it.
  Result<Seed> Find(const std::string& id);

 private:
  // The result of a load by this or another thread that was running at the call. Callers with a
  // known seed do not wait for it.
  Result<void> Load();
  Result<void> LoadOnce();
  void Refresh(std::stop_token stop, std::chrono::milliseconds interval);
  Result<nlohmann::json> GetOrCreate();
  std::optional<Seed> Known(const std::string& id);

  // Constant after construction.
  kube::KubeClient& client_;
  const Clock& clock_;
  const std::string ns_;

  Mutex load_mutex_;  // held while the Secret is read; taken before mutex_

  Mutex mutex_;
  std::map<std::string, std::string> seeds_ RINGMASTER_GUARDED_BY(mutex_);
  std::string current_ RINGMASTER_GUARDED_BY(mutex_);
  uint64_t loads_ RINGMASTER_GUARDED_BY(mutex_) = 0;      // that have ended
  Clock::Time tried_at_ RINGMASTER_GUARDED_BY(mutex_){};  // the last of them
  // Why it could not be read that time.
  std::optional<Error> failure_ RINGMASTER_GUARDED_BY(mutex_);
  StoppableCondVar wake_;

  std::jthread thread_;  // last: it uses the others until it has ended
};

}  // namespace ringmaster::job
