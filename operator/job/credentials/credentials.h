#pragma once

// Derives a job's keys and tokens from a seed of the keyring and the job's UID (ADR 8). The same
// inputs always give the same bytes, so the operator never reads them back from the cluster. Used
// by the reconciler (the job's Secret, the hashes in its Pods) and the launcher poller
// (certificate, token). keyring.h stores the seeds.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/base/mutex.h"
#include "common/base/result.h"
#include "operator/api/types.h"

namespace ringmaster::job {

// A seed of the keyring. `bytes` is secret and never logged.
struct Seed {
  std::string id;
  std::string bytes;  // 32 bytes or more
};

struct Credentials {
  std::string secret_name;  // "<job>-ssh-<10 hex digits>"
  std::string seed_id;
  std::map<std::string, std::string> items;  // item name (common/control/pod_contract.h) -> content
  std::map<std::string, std::string> hashes;  // item name -> lower-case hex SHA-256

  const std::string& Item(const std::string& name) const { return items.at(name); }
};

// Return the names of the items that Pods of a role mount. A Pod never mounts other items.
const std::vector<std::string>& WorkerItems();
const std::vector<std::string>& LauncherItems();

// Returns kInternal if OpenSSL fails, which is not expected.
Result<Credentials> DeriveCredentials(const Seed& seed, const std::string& job_name,
                                      const std::string& job_uid);

// Builds the job's immutable Secret, without owner and labels, which manifests.h adds.
nlohmann::json SecretManifest(const api::TrainingJob& job, const Credentials& credentials);

// Derives credentials once per job UID and keeps them while the job exists. Thread-safe.
class CredentialsCache {
 public:
  Result<std::shared_ptr<const Credentials>> Get(const Seed& seed, const std::string& job_name,
                                                 const std::string& job_uid);
  void Forget(const std::string& job_uid);

 private:
  Mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Credentials>> by_uid_
      RINGMASTER_GUARDED_BY(mutex_);
};

}  // namespace ringmaster::job
