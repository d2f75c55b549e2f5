// Fuzzes the parser of a rank's audit log, and the audit. Each line must parse, with values within
// their bounds, or give an error. An audit of any lines in any order must give a schedule that
// covers all steps of the report without gaps.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <variant>

#include "worker/audit/audit.h"
#include "worker/audit/report.h"

namespace {

namespace audit = ringmaster::audit;

void Require(bool holds) {
  if (!holds) std::abort();
}

void CheckBounds(const audit::AuditLine& line) {
  if (const auto* world = std::get_if<audit::WorldLine>(&line)) {
    Require(world->rank >= 0 && static_cast<std::size_t>(world->rank) < world->members.size());
    Require(world->global_batch >= 1 && world->adopted_step >= 0);
    return;
  }
  const auto& step = std::get<audit::StepLine>(line);
  Require(step.step >= 1 && step.rank >= 0 && step.rank < audit::kMostRanks);
  Require(step.samples.begin >= 0 && step.samples.begin <= step.samples.end);
}

}  // namespace

// An empty line starts another log.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  audit::Audit audit;
  audit::Audit::LogId log = audit.NewLog("first");
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty()) {
      log = audit.NewLog("next");
      continue;
    }
    const auto parsed = audit::ParseLine(line);
    if (!parsed.ok()) {
      Require(!parsed.error().message.empty());
      continue;
    }
    CheckBounds(*parsed);
    const auto added = audit.Add(log, *parsed);
    Require(added.ok() || !added.error().message.empty());
  }
  const audit::Report report = audit.Conclude({});
  int64_t next = 1;
  for (const audit::Segment& segment : report.schedule) {
    Require(segment.first == next && segment.last >= segment.first && !segment.members.empty());
    next = segment.last + 1;
  }
  Require(next == report.steps + 1);
  (void)audit::ScheduleText(report);
  (void)audit::SummaryLine(report);
  return 0;
}
