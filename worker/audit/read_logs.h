#pragma once

// Reads audit logs from disk into an Audit.

#include <string>
#include <vector>

#include "common/base/result.h"
#include "worker/audit/audit.h"

namespace ringmaster::audit {

// Returns the named files and all *.jsonl files below the named folders, sorted. kInvalid: one is
// missing, or there are none.
Result<std::vector<std::string>> FindLogs(const std::vector<std::string>& paths);

// Adds one log. kInvalid names the file and the line. A last line without a newline was cut off:
// the line is ignored, and the audit records the cut.
Result<void> ReadLog(const std::string& file, Audit& audit);

}  // namespace ringmaster::audit
