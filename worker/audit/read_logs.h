#pragma once

// Reads audit logs from disk into an Audit.

#include <string>
#include <vector>

#include "common/base/result.h"
#include "worker/audit/audit.h"

namespace ringmaster::audit {

// The files named, and all *.jsonl below the folders named, sorted. kInvalid when one is missing or
// there is none at all.
Result<std::vector<std::string>> FindLogs(const std::vector<std::string>& paths);

// Adds one log. kInvalid names file and line. A last line without its end was cut off: it is left
// out, and the log counts as torn.
Result<void> ReadLog(const std::string& file, Audit& audit);

}  // namespace ringmaster::audit
