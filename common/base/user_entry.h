#pragma once

// Adds a passwd entry for the current user. ssh and sshd require an entry, but a cluster
// may run a Pod under a uid that has none. The worker image's name service also reads
// <directory>/passwd and <directory>/group (through libnss-extrausers), so an entry can be added
// even if the root file system is read-only.

#include <string>
#include <sys/types.h>

#include "common/base/result.h"

namespace ringmaster {

// Returns the user name of `uid` in the passwd file of the image or of libnss-extrausers, or "".
// Uses no name service: a static program cannot load it. Call it before other threads start.
std::string UserName(uid_t uid);

// Writes passwd and group entries for the current uid into `directory` (created if missing) unless
// the uid already has a name. `home` becomes the entry's home directory. Returns true if it wrote
// entries. Call it before other threads start.
Result<bool> EnsureUserEntry(const std::string& directory, const std::string& home);

}  // namespace ringmaster
