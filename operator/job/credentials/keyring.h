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

// Reads the Secret when a seed is first requested, when an unknown id is requested, and then every
// 30 seconds, so that it finds a rotated seed. Keeps the seeds in memory. Thread-safe.
class Keyring {
 public:
  // `client` and `clock` must outlive the keyring. `ns`: the operator's namespace.
  Keyring(kube::KubeClient& client, const Clock& clock, std::string ns);

  // Starts a thread that reads the Secret every `interval` until destruction, so that new jobs do
  // not wait for the API server.
  void Start(std::chrono::milliseconds interval = std::chrono::seconds(30));

  // Returns the seed for a new job. Creates the Secret if it does not exist. Blocks while it reads
  // the Secret from the API server: on the first call, and if the last read is a minute old.
  Result<Seed> Current();

  // Returns the seed with the id that a job's Service has. Returns kNotFound, with instructions for
  // the user, if the keyring does not have it.
  Result<Seed> Find(const std::string& id);

 private:
  // Reads the Secret, or waits for a load that another thread has started, and returns the result.
  // A caller whose seed is already loaded need not wait for the load.
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
  uint64_t loads_ RINGMASTER_GUARDED_BY(mutex_) = 0;      // number of completed loads
  Clock::Time tried_at_ RINGMASTER_GUARDED_BY(mutex_){};  // end of the last load
  // Why the last load failed; unset: it succeeded.
  std::optional<Error> failure_ RINGMASTER_GUARDED_BY(mutex_);
  StoppableCondVar wake_;

  std::jthread thread_;  // the last member, because the thread uses the other members
};

}  // namespace ringmaster::job
