#include "worker/audit/audit_main.h"

#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "common/command_line/parse_arguments.h"
#include "worker/audit/compare.h"
#include "worker/audit/read_logs.h"
#include "worker/audit/report.h"

namespace ringmaster::audit {
namespace {

struct Options {
  std::vector<std::string> paths;
  std::optional<int64_t> expected_steps;
  std::string schedule;
  std::vector<std::string> compared;
};

Result<Report> Conclude(const std::vector<std::string>& paths,
                        std::optional<int64_t> expected_steps) {
  const Result<std::vector<std::string>> files = FindLogs(paths);
  if (!files.ok()) return files.error();
  Audit audit;
  for (const std::string& file : *files) {
    if (Result<void> read = ReadLog(file, audit); !read.ok()) return read.error();
  }
  return audit.Conclude(expected_steps);
}

Result<void> WriteSchedule(const Report& report, const std::string& path) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << ScheduleText(report);
  file.close();
  if (!file) return Error{ErrorKind::kInvalid, path + ": cannot be written"};
  return {};
}

// Returns the exit code, or an error if the input is bad.
Result<int> Run(const Options& options) {
  const Result<Report> report = Conclude(options.paths, options.expected_steps);
  if (!report.ok()) return report.error();
  if (!options.schedule.empty()) {
    const Result<void> written = WriteSchedule(*report, options.schedule);
    if (!written.ok()) return written.error();
  }
  for (const std::string& sentence : report->findings.sentences) std::puts(sentence.c_str());
  std::puts(SummaryLine(*report).c_str());
  if (options.compared.empty()) return ExitCodeOf(report->findings);

  const Result<Report> other = Conclude(options.compared, {});
  if (!other.ok()) return other.error();
  const Findings differences = Compare(*report, *other);
  for (const std::string& sentence : differences.sentences) std::puts(sentence.c_str());
  std::puts(ComparisonLine(*report, differences).c_str());
  return ExitCodeOf(differences);
}

int Judge(int argc, const char* const* argv) {
  Options options;
  CLI::App app("Proves from the ranks' audit logs that no step was lost or repeated.",
               "ringmaster-audit");
  app.set_version_flag("--version", std::string("ringmaster-audit ") + RINGMASTER_VERSION);
  app.add_option("logs", options.paths, "audit logs, or folders with audit logs (*.jsonl)")
      ->required();
  app.add_option("--expect-steps", options.expected_steps, "number of steps that the job committed")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 53));
  app.add_option("--schedule", options.schedule,
                 "output file: the members that computed each step");
  app.add_option(
      "--compare", options.compared,
      "logs of another run, for example a replay, to compare the parameters after every step with");
  try {
    ParseArguments(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? kExitClean : kExitBadInput;
  }
  const Result<int> code = Run(options);
  if (code.ok()) return *code;
  std::fprintf(stderr, "ringmaster-audit: %s\n", code.error().message.c_str());
  return kExitBadInput;
}

}  // namespace

int Main(int argc, char** argv) {
  try {
    return Judge(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ringmaster-audit: %s\n", error.what());
    return kExitBadInput;
  }
}

}  // namespace ringmaster::audit
