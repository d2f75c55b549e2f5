#include "cli/kubectl.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <unistd.h>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <nlohmann/json.hpp>

#include "cli/terminal.h"
#include "common/json/json.h"
#include "operator/kube/json_access.h"

namespace ringmaster::cli {
namespace {

using nlohmann::json;

constexpr std::size_t kMostOutput = std::size_t{256} << 20;  // bytes; enough for 10000 Pods
constexpr std::size_t kMostErrors = std::size_t{64} << 10;

// A running call of kubectl.
struct Call {
  std::shared_ptr<CapturedProcess> process{};
  std::string output{};
  std::string errors{};      // lines that are errors
  std::string unfinished{};  // incomplete line of standard error
  bool too_long = false;
  std::optional<ProcessEnd> end{};
  std::optional<Error> not_started{};

  void TakeErrors(std::string_view data) {
    unfinished += data;
    for (std::size_t at; (at = unfinished.find('\n')) != std::string::npos;) {
      TakeLine(std::string_view(unfinished).substr(0, at));
      unfinished.erase(0, at + 1);
    }
    if (unfinished.size() > kMostErrors) unfinished.clear();
  }

  void TakeLine(std::string_view line) {
    if (!IsErrorOfKubectl(line)) {
      std::fprintf(stderr, "%s\n", Printable(line).c_str());
    } else if (errors.size() + line.size() < kMostErrors) {
      errors.append(line).append("\n");
    }
  }

  Result<std::string> Take() {
    if (not_started) return *not_started;
    if (!unfinished.empty()) TakeLine(unfinished);
    if (too_long) return Error{ErrorKind::kInvalid, "kubectl printed more than 256 MiB"};
    if (end->exit_code != 0) return ErrorOfKubectl(errors, *end);
    return std::move(output);
  }
};

void Start(ChildReaper& reaper, ProcessSpec spec, Call& call) {
  CapturedProcess::Handlers handlers{
      .on_output =
          [&call](bool is_stderr, std::string_view data) {
            if (is_stderr) return call.TakeErrors(data);
            if (call.output.size() + data.size() <= kMostOutput) {
              call.output += data;
            } else if (!std::exchange(call.too_long, true)) {
              call.process->Stop(std::chrono::seconds(1));
            }
          },
      .on_end = [&call](ProcessEnd end, const LastLines& /*lines*/) { call.end = end; }};
  auto started = CapturedProcess::Start(reaper, std::move(spec), std::move(handlers));
  if (started.ok()) {
    call.process = *std::move(started);
    return;
  }
  call.not_started = started.error();
  if (call.not_started->kind == ErrorKind::kNotFound) {
    call.not_started->message =
        "kubectl is not in PATH; install kubectl, which this plugin runs for all requests";
    call.not_started->reason = kNoKubectl;
  }
}

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

Result<json> Parsed(const Result<std::string>& text) {
  if (!text.ok()) return text.error();
  Result<json> parsed = kube::ParseServerJson(*text);
  if (!parsed.ok()) {
    return Error{
        ErrorKind::kInvalid,
        "kubectl did not print JSON; check that the kubectl in PATH is the Kubernetes client"};
  }
  return parsed;
}

}  // namespace

bool IsErrorOfKubectl(std::string_view line) {
  const bool logged = line.size() > 5 && line[0] == 'E' &&
                      std::all_of(line.begin() + 1, line.begin() + 5,
                                  [](char digit) { return digit >= '0' && digit <= '9'; });
  return logged || line.starts_with("error") || line.starts_with("Error") ||
         line.starts_with("Unable to connect") || line.starts_with("The connection to the server");
}

Error ErrorOfKubectl(std::string_view printed, ProcessEnd end) {
  // The last line is the error; earlier lines may come from earlier attempts of the same request.
  while (printed.ends_with('\n')) printed.remove_suffix(1);
  std::string_view line = printed.substr(printed.rfind('\n') + 1);
  if (line.starts_with("error: ")) line.remove_prefix(7);
  Error error{ErrorKind::kUnavailable, Printable(line)};
  if (line.empty()) {
    error.message = end.signal != 0 ? "kubectl was killed by signal " + std::to_string(end.signal)
                                    : "kubectl exited with code " + std::to_string(end.exit_code) +
                                          " without an error message";
  } else if (Has(line, "doesn't have a resource type") ||
             Has(line, "could not find the requested")) {
    error.kind = ErrorKind::kNotFound;
    error.reason = kNoSuchType;
  } else if (Has(line, "(NotFound)")) {
    error.kind = ErrorKind::kNotFound;
  } else if (Has(line, "(Forbidden)")) {
    error.kind = ErrorKind::kForbidden;
  } else if (Has(line, "(Unauthorized)") || Has(line, "must be logged in")) {
    error.kind = ErrorKind::kUnauthorized;
  }
  return error;
}

Kubectl::Kubectl(Arguments flags, std::string program)
    : flags_(std::move(flags)), program_(std::move(program)) {}

ProcessSpec Kubectl::Spec(const Arguments& arguments) const {
  ProcessSpec spec{.argv = {program_}, .environment = {}};
  spec.argv.insert(spec.argv.end(), flags_.begin(), flags_.end());
  spec.argv.insert(spec.argv.end(), arguments.begin(), arguments.end());
  for (char** entry = environ; *entry != nullptr; ++entry) spec.environment.emplace_back(*entry);
  return spec;
}

std::vector<Result<std::string>> Kubectl::RunAll(const std::vector<Arguments>& calls) const {
  boost::asio::io_context io;
  ChildReaper reaper(io);
  std::vector<Call> running(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) Start(reaper, Spec(calls[i]), running[i]);
  const auto over = [](const Call& call) { return call.end || call.not_started; };
  while (!std::all_of(running.begin(), running.end(), over)) io.run_one();
  std::vector<Result<std::string>> results;
  for (Call& call : running) results.push_back(call.Take());
  return results;
}

Result<std::string> Kubectl::Run(const Arguments& arguments) const {
  return std::move(RunAll({arguments}).front());
}

std::vector<Result<json>> Kubectl::GetAll(std::vector<Arguments> calls) const {
  for (Arguments& call : calls) {
    call.insert(call.begin(), "get");
    call.insert(call.end(), {"-o", "json"});
  }
  std::vector<Result<json>> results;
  for (const Result<std::string>& text : RunAll(calls)) results.push_back(Parsed(text));
  return results;
}

Result<json> Kubectl::Get(Arguments arguments) const {
  return std::move(GetAll({std::move(arguments)}).front());
}

Result<json> Kubectl::GetJob(const std::string& name) const {
  Result<json> job = Get({kJobs, name});
  if (job.ok() || job.error().kind != ErrorKind::kNotFound) return job;
  Error error = job.error();
  error.message = error.reason == kNoSuchType
                      ? "this cluster has no TrainingJobs, because Ringmaster is not installed; "
                        "ask the platform team"
                      : "there is no TrainingJob \"" + name +
                            "\" in this namespace; \"kubectl get trainingjobs -A\" lists the jobs "
                            "of all namespaces, and -n selects a namespace";
  return error;
}

std::string Kubectl::Namespace() const {
  constexpr std::string_view kFlag = "--namespace=";
  for (auto flag = flags_.rbegin(); flag != flags_.rend(); ++flag) {
    if (flag->starts_with(kFlag)) return flag->substr(kFlag.size());
  }
  const auto of_context = Run({"config", "view", "--minify", "-o", "jsonpath={..namespace}"});
  return of_context.ok() && !of_context->empty() ? *of_context : "default";
}

}  // namespace ringmaster::cli
