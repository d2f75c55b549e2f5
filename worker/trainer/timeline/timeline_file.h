#pragma once

// The file that --timeline names: one JSON object with the events of all ranks.

#include <string>
#include <vector>

#include "common/base/result.h"

namespace ringmaster::trainer {

// Before training: kInvalid in a sentence where the file could not be written. Leaves what is
// there.
Result<void> CheckTimelineFile(const std::string& path);

// `ranks` are their ToTraceEvents(). Written aside and renamed.
Result<void> WriteTimelineFile(const std::string& path, const std::vector<std::string>& ranks);

}  // namespace ringmaster::trainer
