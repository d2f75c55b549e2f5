#pragma once

// Loads the worker's credentials from the job's Secret: checks them against the hashes that
// the operator wrote into the Pod, and copies the keys to the runtime directory with the owner
// and mode that ssh requires, which a mounted Secret does not have. Used by the agent at
// start.

#include <filesystem>
#include <string>

#include "common/base/result.h"

namespace ringmaster::agent {

struct Credentials {
  std::string agent_token;
  std::string tls_certificate;          // PEM, the only certificate that the launcher may present
  std::filesystem::path host_key_file;  // copies, mode 0600
  std::filesystem::path authorized_keys_file;
};

// `hashes_json` is the Pod's kEnvItemHashes. kUnauthorized, with "CredentialsMismatch" in the
// message, when an item is missing or differs. REQUIRES: `runtime_dir` exists and is private.
Result<Credentials> PrepareCredentials(const std::filesystem::path& credentials_dir,
                                       const std::string& hashes_json,
                                       const std::filesystem::path& runtime_dir);

}  // namespace ringmaster::agent
