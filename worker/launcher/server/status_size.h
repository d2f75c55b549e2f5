#pragma once

// Keeps a status within the size that the operator reads (launcher_api.h). It
// drops old failures first, then reports of healthy members, then other
// reports.

#include <string>

#include "common/control/launcher_api.h"

namespace ringmaster::launcher {

// Encodes `status` in at most control::MaxStatusBytes(status.ordered) bytes. Cuts the message at
// 2,000 bytes.
std::string EncodeWithin(control::LauncherStatus status);

}  // namespace ringmaster::launcher
