#include "operator/job/credentials/keyring.h"

#include <nlohmann/json.hpp>
#include <openssl/rand.h>

#include "common/base/base64.h"
#include "common/base/hex.h"
#include "common/base/log.h"
#include "operator/api/names.h"
#include "operator/job/credentials/key_derivation.h"
#include "operator/kube/json_access.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

constexpr std::size_t kSeedBytes = 32;
constexpr std::size_t kIdBytes = 4;
constexpr char kCurrent[] = "current";
// The time for which new jobs may still get the previous seed after a rotation.
constexpr auto kCurrentPeriod = std::chrono::seconds(60);
// The shortest time between two reads of the Secret for an unknown id.
constexpr auto kReloadPeriod = std::chrono::seconds(10);

Result<std::string> RandomBytes(std::size_t count) {
  std::string bytes(count, '\0');
  if (RAND_priv_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) !=
      1) {
    return Error{ErrorKind::kInternal, "the system provides no random bytes"};
  }
  return bytes;
}

Result<json> NewKeyring(const std::string& ns) {
  const Result<std::string> seed = RandomBytes(kSeedBytes);
  if (!seed.ok()) return seed.error();
  const Result<std::string> id_bytes = RandomBytes(kIdBytes);
  if (!id_bytes.ok()) return id_bytes.error();
  const std::string id = HexOf(*id_bytes);
  return json{{"apiVersion", "v1"},
              {"kind", "Secret"},
              {"metadata",
               {{"name", api::kKeyringName},
                {"namespace", ns},
                {"labels", {{"app.kubernetes.io/name", "ringmaster"}}}}},
              {"type", "Opaque"},
              {"data", {{kCurrent, EncodeBase64(id)}, {id, EncodeBase64(*seed)}}}};
}

}  // namespace

Keyring::Keyring(kube::KubeClient& client, const Clock& clock, std::string ns)
    : client_(client), clock_(clock), ns_(std::move(ns)) {}

void Keyring::Start(std::chrono::milliseconds interval) {
  thread_ = std::jthread([this, interval](std::stop_token stop) { Refresh(stop, interval); });
}

void Keyring::Refresh(std::stop_token stop, std::chrono::milliseconds interval) {
  while (!stop.stop_requested()) {
    bool in_use = false;
    {
      MutexLock lock(mutex_);
      wake_.WaitFor(mutex_, stop, interval, [] { return false; });
      in_use = !current_.empty();
    }
    if (!in_use || stop.stop_requested()) continue;
    if (const auto loaded = Load(); !loaded.ok())
      LogWarn("Failed to refresh the keyring", {{"error", loaded.error().message}});
  }
}

Result<json> Keyring::GetOrCreate() {
  Result<json> stored = client_.Get(kube::kSecrets, ns_, api::kKeyringName);
  if (stored.ok() || stored.error().kind != ErrorKind::kNotFound) return stored;
  const Result<json> fresh = NewKeyring(ns_);
  if (!fresh.ok()) return fresh.error();
  Result<json> created = client_.Create(kube::kSecrets, ns_, *fresh);
  if (created.ok()) {
    LogInfo("Created the keyring", {{"secret", ns_ + "/" + api::kKeyringName}});
    return created;
  }
  if (created.error().kind != ErrorKind::kAlreadyExists) return created;
  return client_.Get(kube::kSecrets, ns_, api::kKeyringName);
}

Result<void> Keyring::Load() {
  uint64_t before = 0;
  {
    const MutexLock lock(mutex_);
    before = loads_;
  }
  const MutexLock loading(load_mutex_);
  {
    const MutexLock lock(mutex_);
    if (loads_ != before) {
      if (failure_) return *failure_;
      return {};
    }
  }
  Result<void> loaded = LoadOnce();
  const MutexLock lock(mutex_);
  ++loads_;
  tried_at_ = clock_.Now();
  failure_.reset();
  if (!loaded.ok()) failure_ = loaded.error();
  return loaded;
}

Result<void> Keyring::LoadOnce() {
  const Result<json> secret = GetOrCreate();
  if (!secret.ok()) return secret.error().WithContext("reading the keyring");
  std::map<std::string, std::string> seeds;
  for (const auto& [id, text] : kube::GetStringMap(*secret, {"data"})) {
    auto bytes = DecodeBase64(text);
    if (bytes) seeds[id] = *std::move(bytes);
  }
  const auto current = seeds.find(kCurrent);
  const std::string id = current == seeds.end() ? std::string() : current->second;
  seeds.erase(kCurrent);
  const auto seed = seeds.find(id);
  if (seed == seeds.end() || seed->second.size() < kSeedBytes) {
    return Error{ErrorKind::kInvalid,
                 "the Secret " + ns_ + "/" + api::kKeyringName +
                     " has no seed for the id in its entry \"current\"; restore it, or delete the "
                     "Secret and re-create the running jobs"};
  }
  const MutexLock lock(mutex_);
  seeds_ = std::move(seeds);
  current_ = id;
  return {};
}

std::optional<Seed> Keyring::Known(const std::string& id) {
  const MutexLock lock(mutex_);
  const auto found = seeds_.find(id);
  if (found == seeds_.end()) return std::nullopt;
  return Seed{.id = id, .bytes = found->second};
}

Result<Seed> Keyring::Current() {
  std::string known;
  bool old = true;
  {
    const MutexLock lock(mutex_);
    known = current_;
    old = clock_.Now() - tried_at_ >= kCurrentPeriod;
  }
  if (known.empty() || old) {
    const auto loaded = Load();
    // If the load failed, use the previous seed, which is still valid.
    if (!loaded.ok() && known.empty()) return loaded.error();
    if (!loaded.ok()) {
      LogWarn("Kept the previous seed", {{"error", loaded.error().message}});
    }
  }
  const MutexLock lock(mutex_);
  return Seed{.id = current_, .bytes = seeds_.at(current_)};
}

Result<Seed> Keyring::Find(const std::string& id) {
  if (auto seed = Known(id)) return *std::move(seed);
  bool may_load = true;
  {
    // If the last read failed, read again: the Secret may contain the seed.
    const MutexLock lock(mutex_);
    may_load = loads_ == 0 || failure_ || clock_.Now() - tried_at_ >= kReloadPeriod;
  }
  if (may_load) {
    if (auto loaded = Load(); !loaded.ok()) return loaded.error();
    if (auto seed = Known(id)) return *std::move(seed);
  }
  return Error{ErrorKind::kNotFound,
               "the job's keys come from seed " + id + ", which the Secret " + ns_ + "/" +
                   api::kKeyringName +
                   " does not contain; restore that entry, or delete and re-create the job"};
}

}  // namespace ringmaster::job
