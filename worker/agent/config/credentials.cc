#include "worker/agent/config/credentials.h"

#include <map>

#include "common/control/pod_contract.h"
#include "common/control/reasons.h"
#include "common/control/secrets.h"
#include "common/control/verdict.h"

namespace ringmaster::agent {
namespace {

Error Mismatch(const std::string& reason) {
  return {ErrorKind::kUnauthorized,
          std::string(control::kReasonCredentialsMismatch) + ": " + reason};
}

std::string WithoutLineEnd(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

}  // namespace

Result<Credentials> PrepareCredentials(const std::filesystem::path& credentials_dir,
                                       const std::string& hashes_json,
                                       const std::filesystem::path& runtime_dir) {
  Result<std::map<std::string, std::string>> items =
      control::LoadCredentials(credentials_dir, hashes_json);
  if (!items.ok()) return Mismatch(items.error().message);
  for (const char* const item : {control::kItemAgentToken, control::kItemTlsCertificate,
                                 control::kItemSshHostKey, control::kItemSshUserPublicKey}) {
    if (!items->contains(item)) {
      return Mismatch(std::string(control::kEnvItemHashes) + " does not contain the item " + item);
    }
  }
  Credentials credentials;
  credentials.agent_token = WithoutLineEnd(items->at(control::kItemAgentToken));
  credentials.tls_certificate = items->at(control::kItemTlsCertificate);
  credentials.host_key_file = runtime_dir / "ssh_host_key";
  credentials.authorized_keys_file = runtime_dir / "authorized_keys";
  Result<void> written =
      control::WriteFileAtomically(credentials.host_key_file, items->at(control::kItemSshHostKey));
  if (written.ok()) {
    written = control::WriteFileAtomically(credentials.authorized_keys_file,
                                           items->at(control::kItemSshUserPublicKey));
  }
  if (!written.ok()) return written.error();
  return credentials;
}

}  // namespace ringmaster::agent
