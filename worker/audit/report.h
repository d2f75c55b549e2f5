#pragma once

// Formats a Report, or the comparison of two runs: as text, as JSON and as a membership schedule.

#include <string>

#include "worker/audit/audit.h"

namespace ringmaster::audit {

inline constexpr int kExitClean = 0;
inline constexpr int kExitViolation = 1;
inline constexpr int kExitBadInput = 2;
inline constexpr int kExitUnknown = 3;
inline constexpr int kExitRolledBack = 4;

int ExitCodeOf(const Findings& findings);

// Returns one JSON object in one line without a newline: {"steps", "worlds", "lost", "repeated",
// "disagreeing", "unknown", "rolled_back", "ok"}.
std::string SummaryLine(const Report& report);

// Returns a line for each sequence of committed steps that one world computed:
// {"steps":[first,last],"epoch":[term,number],"members":["pod/slot/start",…],"full_size":ranks}
std::string ScheduleText(const Report& report);

// Returns one JSON object of Compare()'s results: {"compared", "disagreeing", "unknown", "ok"}.
std::string ComparisonLine(const Report& job, const Findings& differences);

}  // namespace ringmaster::audit
