#pragma once

// The items of the job's Secret that a worker needs, in the shape the agent uses them: checked
// against the hashes the operator wrote into the Pod, the keys copied to the runtime directory with
// the owner and mode that ssh wants (a mounted Secret is a tree of links with neither). Used by the
// agent at start.

#include <filesystem>
#include <string>

#include "common/base/result.h"

namespace ringmaster::agent {

struct Credentials {
  std::string agent_token;
  std::string tls_certificate;          // PEM, the only one the launcher may show
  std::filesystem::path host_key_file;  // copies, mode 0600
  std::filesystem::path authorized_keys_file;
};

// `hashes_json` is the Pod's kEnvItemHashes. kUnauthorized, with "CredentialsMismatch" in the
// message, when an item is missing or differs. `runtime_dir` exists and is private.
Result<Credentials> PrepareCredentials(const std::filesystem::path& credentials_dir,
                                       const std::string& hashes_json,
                                       const std::filesystem::path& runtime_dir);

}  // namespace ringmaster::agent
