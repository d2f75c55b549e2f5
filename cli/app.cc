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

#include "cli/kubectl.h"
#include "cli/log_session.h"
#include "cli/status.h"
#include "cli/terminal.h"
#include "common/command_line/parse_arguments.h"

namespace ringmaster::cli {
namespace {

constexpr char kProgram[] = "kubectl trainingjob";

// kubectl's own flags, which every kubectl that is run gets as they were given.
struct KubectlFlag {
  const char* names;
  const char* help;
};
constexpr KubectlFlag kTextFlags[] = {
    {"-n,--namespace", "the job's namespace; the default is the context's"},
    {"--context", "a context of the kubeconfig"},
    {"--kubeconfig", "the kubeconfig file"},
    {"--cluster", "a cluster of the kubeconfig"},
    {"--user", "a user of the kubeconfig"},
    {"--as", "who to act as"},
    {"--as-uid", "the UID of who to act as"},
    {"-s,--server", "the API server's address"},
    {"--token", "a bearer token for the API server"},
    {"--certificate-authority", "the file with the API server's CA"},
    {"--client-certificate", "the file with the client's certificate"},
    {"--client-key", "the file with the client's key"},
    {"--tls-server-name", "the name in the API server's certificate"},
    {"--request-timeout", "how long one request may take, for example 10s"},
    {"--cache-dir", "where kubectl keeps what it has discovered"},
};

struct Options {
  std::string job{};
  std::string output{};  // json, or empty
  LogOptions logs{};
};

std::string LongName(const std::string& names) { return names.substr(names.find("--")); }

// Adds kubectl's flags; what was given of them is appended to `given`.
void AddKubectlFlags(CLI::App& app, Arguments& given) {
  for (const KubectlFlag& flag : kTextFlags) {
    const std::string name = LongName(flag.names);
    app.add_option_function<std::string>(
           flag.names,
           [&given, name](const std::string& value) { given.push_back(name + "=" + value); },
           flag.help)
        ->group("kubectl's flags");
  }
  app.add_option_function<std::vector<std::string>>(
         "--as-group",
         [&given](const std::vector<std::string>& groups) {
           for (const std::string& group : groups) given.push_back("--as-group=" + group);
         },
         "a group to act as; may be repeated")
      ->expected(1)
      ->take_all()
      ->group("kubectl's flags");
  app.add_flag_function(
         "--insecure-skip-tls-verify",
         [&given](int64_t /*times*/) { given.emplace_back("--insecure-skip-tls-verify"); },
         "do not check the API server's certificate")
      ->group("kubectl's flags");
}

// Names of objects, so that kubectl cannot take one for a flag.
std::string WrongName(std::string& name) {
  for (const std::string_view prefix : {"trainingjobs/", "trainingjob/", "tj/"}) {
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  }
  const bool fine =
      !name.empty() && name.size() <= 253 &&
      std::all_of(name.begin(), name.end(),
                  [](char c) {
                    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
                  }) &&
      name.front() != '-';
  return fine ? "" : "a job's name has lower-case letters, digits and dashes alone";
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

// Other than ASCII is escaped, so that a terminal shows it as it is.
std::string JsonText(const nlohmann::json& json) {
  return json.dump(2, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
}

int RunStatus(const Kubectl& kubectl, const Options& options) {
  const Result<JobObjects> objects = ReadJobObjects(kubectl, options.job);
  if (!objects.ok()) return Fail(objects.error());
  const Time now = std::chrono::system_clock::now();
  if (options.output.empty()) return Show(StatusText(*objects, now));
  const Result<nlohmann::json> json = StatusJson(*objects, now);
  return json.ok() ? Show(JsonText(*json)) : Fail(json.error());
}

void AddLogOptions(CLI::App* command, LogOptions& logs) {
  command->add_option("--rank", logs.rank, "the lines of this rank alone")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--worker", logs.workers,
                   "the log of this worker alone, by its number; may be "
                   "repeated")
      ->check(CLI::NonNegativeNumber)
      ->expected(1)
      ->take_all();
  command->add_option("--since", logs.since, "only what is newer than this, for example 10m");
  command->add_option("--tail", logs.tail, "only the last lines, so many of each Pod")
      ->check(CLI::NonNegativeNumber);
  command->add_flag(
      "-f,--follow", logs.follow,
      "go on with what is printed, by Pods that are replaced, too, until the job ends");
  command->add_flag("--timestamps", logs.timestamps, "the time in front of each line");
  command
      ->add_option("--max-log-requests", logs.most_requests,
                   "how many Pods' logs are read at once, at most")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, std::size_t{10000}));
}

int RunLogs(const Kubectl& kubectl, Options options) {
  options.logs.job = options.job;
  options.logs.for_terminal = isatty(STDOUT_FILENO) == 1;
  const Result<void> shown = ShowLogs(kubectl, options.logs);
  return shown.ok() ? 0 : Fail(shown.error());
}

int RunProgram(int argc, char** argv) {
  Options options;
  Arguments flags;
  CLI::App app("Looks into TrainingJobs of Ringmaster, through kubectl and with its login.",
               kProgram);
  app.set_version_flag("--version", std::string("kubectl-trainingjob ") + RINGMASTER_VERSION);
  app.require_subcommand(1);
  AddKubectlFlags(app, flags);
  CLI::App* status = AddCommand(app, "status", "Whether a job trains, and if not, why: one screen");
  AddJob(status, options);
  AddOutput(status, options);
  CLI::App* logs = AddCommand(app, "logs", "What all ranks of a job print, by time");
  AddJob(logs, options);
  AddLogOptions(logs, options.logs);
  try {
    ParseArguments(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const Kubectl kubectl(flags);
  if (logs->parsed()) return RunLogs(kubectl, options);
  return RunStatus(kubectl, options);
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
