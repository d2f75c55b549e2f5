#include "worker/audit/report.h"

#include <nlohmann/json.hpp>

namespace ringmaster::audit {
namespace {

// Replaces bytes that are not UTF-8, so that dumping cannot fail.
std::string Dump(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

int ExitCodeOf(const Findings& findings) {
  if (findings.lost + findings.repeated + findings.disagreeing > 0) return kExitViolation;
  if (findings.unknown > 0) return kExitUnknown;
  return findings.rolled_back > 0 ? kExitRolledBack : kExitClean;
}

std::string SummaryLine(const Report& report) {
  const Findings& findings = report.findings;
  return Dump({{"steps", report.steps},
               {"worlds", report.worlds},
               {"lost", findings.lost},
               {"repeated", findings.repeated},
               {"disagreeing", findings.disagreeing},
               {"unknown", findings.unknown},
               {"rolled_back", findings.rolled_back},
               {"ok", ExitCodeOf(findings) == kExitClean}});
}

std::string ScheduleText(const Report& report) {
  std::string text;
  for (const Segment& segment : report.schedule) {
    nlohmann::ordered_json line;
    line["steps"] = {segment.first, segment.last};
    line["epoch"] = {segment.epoch.term, segment.epoch.number};
    line["members"] = segment.members;
    if (segment.full_size > 0) line["full_size"] = segment.full_size;
    text += Dump(line) + "\n";
  }
  return text;
}

std::string ComparisonLine(const Report& job, const Findings& differences) {
  return Dump({{"compared", job.steps},
               {"disagreeing", differences.disagreeing},
               {"unknown", differences.unknown},
               {"ok", ExitCodeOf(differences) == kExitClean}});
}

}  // namespace ringmaster::audit
