#include "operator/job/credentials/credentials.h"

#include <nlohmann/json.hpp>

#include "common/base/base64.h"
#include "common/base/hex.h"
#include "common/control/pod_contract.h"
#include "common/control/secrets.h"
#include "common/control/tls.h"
#include "operator/job/credentials/key_derivation.h"

namespace ringmaster::job {

namespace {

constexpr std::size_t kRawKeyBytes = 32;

// The purposes of derived keys. Changing a purpose changes the keys of every job.
constexpr char kPurposeSshUser[] = "ringmaster/v1/ssh-user-key";
constexpr char kPurposeSshHost[] = "ringmaster/v1/ssh-host-key";
constexpr char kPurposeTls[] = "ringmaster/v1/tls-key";
constexpr char kPurposeAgentToken[] = "ringmaster/v1/agent-token";
constexpr char kPurposeOperatorToken[] = "ringmaster/v1/operator-token";
constexpr char kPurposeName[] = "ringmaster/v1/secret-name";
constexpr std::size_t kNameBytes = 5;  // 10 hex digits

Result<void> AddSshKey(const Seed& seed, const std::string& job_uid, const char* purpose,
                       const std::string& comment, const char* private_item,
                       const char* public_item, Credentials& out) {
  const Result<std::string> raw = Hkdf(seed.bytes, job_uid, purpose, kRawKeyBytes);
  if (!raw.ok()) return raw.error();
  Result<SshKeyPair> pair = MakeSshKeyPair(*raw, comment);
  if (!pair.ok()) return pair.error();
  out.items[private_item] = std::move(pair->private_key);
  out.items[public_item] = std::move(pair->public_line);
  return {};
}

Result<void> AddTls(const Seed& seed, const std::string& job_uid, Credentials& out) {
  const Result<std::string> raw = Hkdf(seed.bytes, job_uid, kPurposeTls, kRawKeyBytes);
  if (!raw.ok()) return raw.error();
  Result<TlsKeyPair> pair = MakeTlsKeyPair(*raw, control::TlsServerName(job_uid));
  if (!pair.ok()) return pair.error();
  out.items[control::kItemTlsKey] = std::move(pair->key_pem);
  out.items[control::kItemTlsCertificate] = std::move(pair->certificate_pem);
  return {};
}

Result<void> AddToken(const Seed& seed, const std::string& job_uid, const char* purpose,
                      const char* item, Credentials& out) {
  const Result<std::string> raw = Hkdf(seed.bytes, job_uid, purpose, kRawKeyBytes);
  if (!raw.ok()) return raw.error();
  out.items[item] = HexOf(*raw);
  return {};
}

Result<void> FillItems(const Seed& seed, const std::string& job_name, const std::string& job_uid,
                       Credentials& out) {
  if (auto r = AddSshKey(seed, job_uid, kPurposeSshUser, "ringmaster-user@" + job_name,
                         control::kItemSshUserKey, control::kItemSshUserPublicKey, out);
      !r.ok()) {
    return r;
  }
  if (auto r = AddSshKey(seed, job_uid, kPurposeSshHost, "ringmaster-host@" + job_name,
                         control::kItemSshHostKey, control::kItemSshHostPublicKey, out);
      !r.ok()) {
    return r;
  }
  if (auto r = AddTls(seed, job_uid, out); !r.ok()) return r;
  if (auto r = AddToken(seed, job_uid, kPurposeAgentToken, control::kItemAgentToken, out); !r.ok())
    return r;
  return AddToken(seed, job_uid, kPurposeOperatorToken, control::kItemOperatorToken, out);
}

}  // namespace

const std::vector<std::string>& WorkerItems() {
  static const std::vector<std::string> items{
      control::kItemSshUserPublicKey, control::kItemSshHostKey, control::kItemTlsCertificate,
      control::kItemAgentToken};
  return items;
}

const std::vector<std::string>& LauncherItems() {
  static const std::vector<std::string> items{
      control::kItemSshUserKey,     control::kItemSshHostPublicKey, control::kItemTlsKey,
      control::kItemTlsCertificate, control::kItemAgentToken,       control::kItemOperatorToken};
  return items;
}

Result<Credentials> DeriveCredentials(const Seed& seed, const std::string& job_name,
                                      const std::string& job_uid) {
  Credentials out;
  out.seed_id = seed.id;
  const Result<std::string> name = Hkdf(seed.bytes, job_uid, kPurposeName, kNameBytes);
  if (!name.ok()) return name.error();
  out.secret_name = job_name + "-ssh-" + HexOf(*name);
  if (auto r = FillItems(seed, job_name, job_uid, out); !r.ok()) return r.error();
  for (const auto& [item, content] : out.items) out.hashes[item] = control::Sha256Hex(content);
  return out;
}

nlohmann::json SecretManifest(const api::TrainingJob& job, const Credentials& credentials) {
  nlohmann::json data = nlohmann::json::object();
  for (const auto& [item, content] : credentials.items) {
    data[item] = EncodeBase64(content);
  }
  return {{"apiVersion", "v1"},
          {"kind", "Secret"},
          {"metadata", {{"name", credentials.secret_name}, {"namespace", job.ns}}},
          {"type", "Opaque"},
          {"immutable", true},
          {"data", std::move(data)}};
}

Result<std::shared_ptr<const Credentials>> CredentialsCache::Get(const Seed& seed,
                                                                 const std::string& job_name,
                                                                 const std::string& job_uid) {
  {
    const MutexLock lock(mutex_);
    const auto found = by_uid_.find(job_uid);
    if (found != by_uid_.end() && found->second->seed_id == seed.id) return found->second;
  }
  Result<Credentials> derived = DeriveCredentials(seed, job_name, job_uid);
  if (!derived.ok()) return derived.error();
  auto shared = std::make_shared<const Credentials>(*std::move(derived));
  const MutexLock lock(mutex_);
  by_uid_[job_uid] = shared;
  return shared;
}

void CredentialsCache::Forget(const std::string& job_uid) {
  const MutexLock lock(mutex_);
  by_uid_.erase(job_uid);
}

}  // namespace ringmaster::job
