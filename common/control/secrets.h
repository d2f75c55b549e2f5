#pragma once

// Helpers for the job's credentials: compare tokens, hash and load the items of the Secret, write
// key files. Used by agent and launcher at start and to check tokens.

#include <map>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace ringmaster::control {

// Compares two secrets in a time that does not depend on where they differ. An empty secret never
// matches.
bool SecretsEqual(std::string_view a, std::string_view b);

// Returns lower-case hex, as in kEnvItemHashes.
std::string Sha256Hex(std::string_view bytes);

// Reads the items that `hashes_json` (kEnvItemHashes) names from `directory`, checks their hashes,
// and returns each item's content by its name. kInvalid if an item is missing or differs; the error
// names the item and never contains its content. The caller reports CredentialsMismatch.
Result<std::map<std::string, std::string>> LoadCredentials(const std::string& directory,
                                                           std::string_view hashes_json);

// Creates `directory` and its missing parents. Sets the mode of `directory` to 0700 even if it
// existed before.
Result<void> MakePrivateDirectory(const std::string& directory);

// Writes a new file with this mode and renames it, so that readers see all of it or nothing.
Result<void> WriteFileAtomically(const std::string& path, std::string_view content,
                                 unsigned mode = 0600);

}  // namespace ringmaster::control
