#pragma once

// Helpers for the job's credentials: compare tokens, hash and load the items of the Secret, write
// key files. Used by agent and launcher at start and to check tokens.

#include <map>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace ringmaster::control {

// Whether both are the same, in a time that does not depend on where they differ. An empty secret
// equals nothing.
bool SecretsEqual(std::string_view a, std::string_view b);

// Lower-case hex, as in kEnvItemHashes.
std::string Sha256Hex(std::string_view bytes);

// Item name to content, of every item that `hashes_json` (kEnvItemHashes) names, read from
// `directory` and compared with its hash. kInvalid, with the item's name and never its content,
// when one is missing or differs: the caller reports CredentialsMismatch.
Result<std::map<std::string, std::string>> LoadCredentials(const std::string& directory,
                                                           std::string_view hashes_json);

// Makes `directory` and its missing parents, mode 0700 for `directory` itself even where it
// existed.
Result<void> MakePrivateDirectory(const std::string& directory);

// Writes a file aside, mode as given, and renames it into place: readers see all of it or none.
Result<void> WriteFileAtomically(const std::string& path, std::string_view content,
                                 unsigned mode = 0600);

}  // namespace ringmaster::control
