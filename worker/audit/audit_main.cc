// ringmaster-audit: says whether the audit logs of a job's ranks prove that no step was lost or
// repeated. Exit codes: report.h.

#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "worker/audit/read_logs.h"
#include "worker/audit/report.h"

namespace ringmaster::audit {
namespace {

struct Options {
  std::vector<std::string> paths;
  std::optional<int64_t> expected_steps;
  std::string schedule;
};

Result<Report> Run(const Options& options) {
  const Result<std::vector<std::string>> files = FindLogs(options.paths);
  if (!files.ok()) return files.error();
  Audit audit;
  for (const std::string& file : *files) {
    if (Result<void> read = ReadLog(file, audit); !read.ok()) return read.error();
  }
  Report report = audit.Conclude(options.expected_steps);
  if (!options.schedule.empty()) {
    std::ofstream file(options.schedule, std::ios::binary | std::ios::trunc);
    file << ScheduleText(report);
    file.close();
    if (!file) return Error{ErrorKind::kInvalid, options.schedule + ": cannot be written"};
  }
  return report;
}

int Main(int argc, const char* const* argv) {
  Options options;
  CLI::App app("Proves from the ranks' audit logs that no step was lost or repeated.",
               "ringmaster-audit");
  app.set_version_flag("--version", std::string("ringmaster-audit ") + RINGMASTER_VERSION);
  app.add_option("logs", options.paths, "audit logs, or folders that hold them (*.jsonl)")
      ->required();
  app.add_option("--expect-steps", options.expected_steps, "how many steps the job committed")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 53));
  app.add_option("--schedule", options.schedule,
                 "a file to write to: which members computed which steps");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? kExitClean : kExitBadInput;
  }
  const Result<Report> report = Run(options);
  if (!report.ok()) {
    std::fprintf(stderr, "ringmaster-audit: %s\n", report.error().message.c_str());
    return kExitBadInput;
  }
  for (const std::string& sentence : report->findings.sentences) std::puts(sentence.c_str());
  std::puts(SummaryLine(*report).c_str());
  return ExitCodeOf(report->findings);
}

}  // namespace
}  // namespace ringmaster::audit

int main(int argc, char** argv) {
  try {
    return ringmaster::audit::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ringmaster-audit: %s\n", error.what());
    return ringmaster::audit::kExitBadInput;
  }
}
