#pragma once

// Adds a passwd entry for the current user. A cluster may run a Pod under any uid, also one that
// has no entry, but ssh and sshd require an entry. The worker image's name service also reads
// <directory>/passwd and <directory>/group (through libnss-extrausers), so an entry can be added
// under a read-only root.

#include <string>
#include <sys/types.h>

#include "common/base/result.h"

namespace ringmaster {

// The name of `uid` in the passwd file of the image or of libnss-extrausers; empty if it has none.
// Does not use a name service: a static program cannot load it. Call before other threads start.
std::string UserName(uid_t uid);

// Writes passwd and group entries for the current uid into `directory` (created if missing) unless
// the uid already has a name. `home` becomes the entry's home directory. Returns whether it wrote
// them. Call it before other threads start.
Result<bool> EnsureUserEntry(const std::string& directory, const std::string& home);

}  // namespace ringmaster
