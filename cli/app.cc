#include "cli/app.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/complete.h"
#include "cli/doctor.h"
#include "cli/explain.h"
#include "cli/kubectl.h"
#include "cli/kubectl_flags.h"
#include "cli/log_session.h"
#include "cli/profiles.h"
#include "cli/status.h"
#include "cli/terminal.h"
#include "common/command_line/parse_arguments.h"

namespace ringmaster::cli {
namespace {

constexpr char kProgram[] = "kubectl trainingjob";

struct Options {
  std::string job{};
  std::string output{};  // json, or empty
  LogOptions logs{};
};

// Adds kubectl's flags to the parser, which appends the flags on the command line to `flags`.
void AddKubectlFlags(CLI::App& app, Arguments& flags) {
  for (const KubectlFlag& flag : kKubectlFlags) {
    const std::string names = flag.short_name[0] == '\0'
                                  ? std::string(flag.name)
                                  : std::string(flag.short_name) + "," + flag.name;
    app.add_option_function<std::string>(
           names,
           [&flags, name = std::string(flag.name)](const std::string& value) {
             flags.push_back(name + "=" + value);
           },
           flag.help)
        ->group("kubectl's flags");
  }
  app.add_option_function<std::vector<std::string>>(
         "--as-group",
         [&flags](const std::vector<std::string>& groups) {
           for (const std::string& group : groups) flags.push_back("--as-group=" + group);
         },
         "group to impersonate; may be repeated")
      ->expected(1)
      ->take_all()
      ->group("kubectl's flags");
  app.add_flag_function(
         "--insecure-skip-tls-verify",
         [&flags](int64_t /*times*/) { flags.emplace_back("--insecure-skip-tls-verify"); },
         "do not verify the API server's certificate")
      ->group("kubectl's flags");
}

// Removes a type such as "tj/" from the name. Rejects invalid names, such as kubectl's flags.
std::string WrongName(std::string& name) {
  for (const std::string_view prefix : {"trainingjobs/", "trainingjob/", "tj/"}) {
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  }
  const bool fine =
      !name.empty() && name.size() <= 253 &&
      std::all_of(
          name.begin(), name.end(),
          [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; }) &&
      name.front() != '-';
  return fine ? "" : "a job's name contains only lower-case letters, digits and dashes";
}

CLI::App* AddCommand(CLI::App& app, const char* name, const char* help) {
  return app.add_subcommand(name, help)->fallthrough();
}

void AddJob(CLI::App* command, Options& options) {
  command->add_option("JOB", options.job, "the TrainingJob's name")
      ->required()
      ->transform(CLI::Validator(WrongName, "NAME"));
}

void AddOutput(CLI::App* command, Options& options) {
  command->add_option("-o,--output", options.output, "json, for scripts")
      ->check(CLI::IsMember({"json"}));
}

int Fail(const Error& error) {
  std::fprintf(stderr, "%s: %s\n", kProgram, Printable(error.message).c_str());
  return 1;
}

int Show(const Result<std::string>& text) {
  if (!text.ok()) return Fail(text.error());
  std::fputs(text->c_str(), stdout);
  return 0;
}

// Escapes non-ASCII characters, so that they cannot change what a terminal displays.
std::string JsonText(const nlohmann::json& json) {
  return json.dump(2, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
}

int RunStatus(const Kubectl& kubectl, const Options& options) {
  const Result<JobObjects> objects = ReadJobObjects(kubectl, options.job);
  if (!objects.ok()) return Fail(objects.error());
  const Time now = std::chrono::system_clock::now();
  if (options.output.empty()) return Show(StatusText(*objects, now));
  const Result<nlohmann::json> json = StatusJson(*objects);
  return json.ok() ? Show(JsonText(*json)) : Fail(json.error());
}

void AddLogOptions(CLI::App* command, LogOptions& logs) {
  command->add_option("--rank", logs.rank, "print only the lines of this rank")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--worker", logs.workers,
                   "print only the log of the worker with this number; may be repeated")
      ->check(CLI::NonNegativeNumber)
      ->expected(1)
      ->take_all();
  command->add_option("--since", logs.since,
                      "print only lines that are newer than this, for example 10m");
  command->add_option("--tail", logs.tail, "number of recent lines to print from each Pod")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("-f,--follow", logs.follow,
                    "follow the logs, including those of replacement Pods, until the job ends");
  command->add_flag("--timestamps", logs.timestamps, "print the time before each line");
  command
      ->add_option("--max-log-requests", logs.most_requests,
                   "maximum number of Pods whose logs are read at once")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, std::size_t{10000}));
}

int RunExplain(const Kubectl& kubectl, const Options& options) {
  const Result<ExplainObjects> objects = ReadExplainObjects(kubectl, options.job);
  if (!objects.ok()) return Fail(objects.error());
  const Result<nlohmann::json> explained = ExplainJson(*objects);
  if (!explained.ok()) return Fail(explained.error());
  return Show(options.output.empty() ? ExplainText(*explained) : JsonText(*explained));
}

int RunProfiles(const Kubectl& kubectl, const Options& options) {
  const Result<nlohmann::json> list = ReadLocalProfiles(kubectl);
  if (!list.ok()) return Fail(list.error());
  return Show(options.output.empty() ? ProfilesText(*list) : JsonText(ProfilesJson(*list)));
}

int RunDoctor(const Kubectl& kubectl, const Options& options) {
  const std::vector<Check> checks = RunChecks(kubectl);
  Show(options.output.empty() ? ChecksText(checks) : JsonText(ChecksJson(checks)));
  return AnyFailed(checks) ? 1 : 0;
}

int RunLogs(const Kubectl& kubectl, Options options) {
  options.logs.job = options.job;
  options.logs.for_terminal = isatty(STDOUT_FILENO) == 1;
  const Result<void> shown = ShowLogs(kubectl, options.logs);
  return shown.ok() ? 0 : Fail(shown.error());
}

// The subcommands, for parsing and for completion.
struct Commands {
  Commands(CLI::App& app, Options& options) {
    status = AddCommand(app, "status", "Show on one screen whether a job trains, and if not, why");
    logs = AddCommand(app, "logs", "Print the logs of all ranks of a job, ordered by time");
    explain = AddCommand(
        app, "explain",
        "Show the spec that a job's Pods are created from, and which fields its profile set");
    profiles = AddCommand(app, "profiles",
                          "List the TrainingProfiles that jobs of the namespace may name");
    doctor = AddCommand(app, "doctor", "Check whether the cluster is ready for TrainingJobs");
    for (CLI::App* command : {status, logs, explain}) AddJob(command, options);
    for (CLI::App* command : {status, explain, profiles, doctor}) AddOutput(command, options);
    AddLogOptions(logs, options.logs);
  }

  int Run(const Kubectl& kubectl, const Options& options) const {
    if (status->parsed()) return RunStatus(kubectl, options);
    if (logs->parsed()) return RunLogs(kubectl, options);
    if (explain->parsed()) return RunExplain(kubectl, options);
    if (profiles->parsed()) return RunProfiles(kubectl, options);
    return RunDoctor(kubectl, options);
  }

  std::vector<CompletedCommand> Completed() const {
    std::vector<CompletedCommand> list;
    for (const CLI::App* command : {status, logs, explain, profiles, doctor}) {
      CompletedCommand& completed = list.emplace_back();
      completed.name = command->get_name();
      completed.takes_job = command->get_option_no_throw("JOB") != nullptr;
      for (const CLI::Option* option : command->get_options()) {
        if (!option->get_lnames().empty())
          completed.flags.push_back("--" + option->get_lnames()[0]);
      }
      for (const CLI::App* parser : {command, command->get_parent()}) {
        for (const CLI::Option* option : parser->get_options()) {
          if (option->get_items_expected_max() == 0) continue;
          for (const std::string& name : option->get_snames()) {
            completed.flags_with_value.push_back("-" + name);
          }
          for (const std::string& name : option->get_lnames()) {
            completed.flags_with_value.push_back("--" + name);
          }
        }
      }
    }
    return list;
  }

  CLI::App* status = nullptr;
  CLI::App* logs = nullptr;
  CLI::App* explain = nullptr;
  CLI::App* profiles = nullptr;
  CLI::App* doctor = nullptr;
};

// Returns true if kubectl requests completions, by the program's name or with `__complete`.
bool AsksForCompletion(int argc, char** argv) {
  const std::string_view path = argc > 0 ? argv[0] : "";
  return path.substr(path.rfind('/') + 1) == "kubectl_complete-trainingjob" ||
         (argc > 1 && std::string_view(argv[1]) == "__complete");
}

int RunProgram(int argc, char** argv) {
  Options options;
  Arguments flags;
  CLI::App app("Inspects Ringmaster's TrainingJobs through kubectl and with its credentials.",
               kProgram);
  app.set_version_flag("--version", std::string("kubectl-trainingjob ") + RINGMASTER_VERSION);
  app.require_subcommand(1);
  AddKubectlFlags(app, flags);
  const Commands commands(app, options);
  if (AsksForCompletion(argc, argv)) {
    std::vector<std::string> words(argv + 1, argv + argc);
    if (!words.empty() && words.front() == "__complete") words.erase(words.begin());
    return Show(Complete(commands.Completed(), words));
  }
  try {
    ParseArguments(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return commands.Run(Kubectl(flags), options);
}

}  // namespace

int Main(int argc, char** argv) {
  try {
    return RunProgram(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", kProgram, error.what());
    return 1;
  }
}

}  // namespace ringmaster::cli
