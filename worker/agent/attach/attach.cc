#include "worker/agent/attach/attach.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <variant>

#include "common/control/exit_codes.h"
#include "common/control/pod_contract.h"

namespace ringmaster::agent {
namespace {

constexpr std::chrono::milliseconds kAgentLostGrace{1000};
constexpr std::chrono::milliseconds kOrphansLimit{500};
constexpr std::size_t kMaxQueuedOutput = 1 << 20;  // limit on bytes queued for the agent
constexpr char kCohortFlag[] = "--cohort=";
constexpr char kStayFlag[] = "--stay";  // do not change the directory that mpirun chose

std::optional<long long> ParseNumber(std::string_view text) {
  long long number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < 0) return std::nullopt;
  return number;
}

std::optional<int> NumberOf(const Environment& environment, const std::string& name) {
  const auto variable = environment.find(name);
  if (variable == environment.end()) return std::nullopt;
  const std::optional<long long> number = ParseNumber(variable->second);
  return number.has_value() ? std::optional<int>(static_cast<int>(*number)) : std::nullopt;
}

AttachArguments Failed(int exit_code, std::string message) {
  return {std::nullopt, {exit_code, std::move(message)}};
}

std::string NoAgent(const std::string& host, const std::string& detail) {
  return std::string(control::kNoAgentText) + " (" + detail + "): mpirun placed the rank on " +
         host + ", which is not a worker of this job; check that this Open MPI uses the hostfile";
}

std::vector<int> OpenDescriptors() {
  std::vector<int> descriptors;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const std::optional<long long> number = ParseNumber(entry.path().filename().string());
    if (number.value_or(0) > STDERR_FILENO) descriptors.push_back(static_cast<int>(*number));
  }
  return descriptors;
}

int ExitCodeOf(const control::RankExit& exit) {
  return exit.signal != 0 ? 128 + exit.signal : exit.exit_code;
}

}  // namespace

AttachArguments ReadAttachArguments(const std::vector<std::string>& arguments,
                                    const Environment& environment, const std::string& host) {
  AttachOptions options;
  std::optional<long long> cohort;
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  bool stay = false;
  for (auto argument = arguments.begin(); argument != dashes; ++argument) {
    if (*argument == kStayFlag) {
      stay = true;
      continue;
    }
    if (!argument->starts_with(kCohortFlag)) {
      // A launcher of another release may pass options that this release does not know.
      if (argument->starts_with("--")) continue;
      return Failed(1,
                    "unknown argument \"" + *argument +
                        "\"; usage: ringmaster-attach --cohort=N [--stay] [-- PROGRAM ARGUMENTS]");
    }
    cohort = ParseNumber(std::string_view(*argument).substr(sizeof kCohortFlag - 1));
    if (!cohort.has_value()) return Failed(1, "\"" + *argument + "\" must be a number");
  }
  if (!cohort.has_value()) return Failed(1, "the argument --cohort=N is missing");
  if (dashes != arguments.end()) options.program.assign(dashes + 1, arguments.end());
  if (dashes != arguments.end() && options.program.empty()) {
    return Failed(1, "there is no program after --");
  }
  const auto socket = environment.find(control::kEnvAgentSocket);
  if (socket == environment.end()) {
    return Failed(control::kExitNoAgent,
                  NoAgent(host, std::string(control::kEnvAgentSocket) + " is not set"));
  }
  const std::optional<int> slot = NumberOf(environment, "OMPI_COMM_WORLD_LOCAL_RANK");
  const std::optional<int> rank = NumberOf(environment, "OMPI_COMM_WORLD_RANK");
  const std::optional<int> size = NumberOf(environment, "OMPI_COMM_WORLD_SIZE");
  if (!slot.has_value() || !rank.has_value() || !size.has_value()) {
    return Failed(1,
                  "OMPI_COMM_WORLD_LOCAL_RANK, _RANK or _SIZE is not set: attach must be started "
                  "by Open MPI's mpirun");
  }
  options.socket = socket->second;
  const auto working_dir = environment.find(kEnvWorkingDir);
  if (!stay && working_dir != environment.end()) options.working_dir = working_dir->second;
  options.hello = {*cohort, *slot, *rank, *size, !options.program.empty()};
  options.variables = {
      {"RANK", std::to_string(*rank)},
      {"WORLD_SIZE", std::to_string(*size)},
      {"LOCAL_RANK", std::to_string(*slot)},
      {kEnvHeartbeat, HeartbeatFile(std::filesystem::path(options.socket).parent_path(), *slot)}};
  const std::optional<int> beside = NumberOf(environment, "OMPI_COMM_WORLD_LOCAL_SIZE");
  if (beside) options.variables["LOCAL_WORLD_SIZE"] = std::to_string(*beside);
  return {std::move(options), {}};
}

Attach::Attach(boost::asio::io_context& io, AttachOptions options, std::string host)
    : io_(io),
      options_(std::move(options)),
      host_(std::move(host)),
      inherited_(OpenDescriptors()),
      signals_(io) {}

int Attach::Run() {
  if (options_.hello.direct) {
    reaper_ = std::make_unique<ChildReaper>(io_);
    ForwardSignals();
  }
  control::DialUnix(io_, options_.socket, {},
                    [this](Result<std::shared_ptr<control::LineConnection>> dialled) {
                      OnDialled(std::move(dialled));
                    });
  io_.run();
  return exit_code_.value_or(1);
}

void Attach::OnDialled(Result<std::shared_ptr<control::LineConnection>> dialled) {
  if (!dialled.ok()) return End(control::kExitNoAgent, NoAgent(host_, dialled.error().message));
  connection_ = *std::move(dialled);
  connection_->Start({.on_message = [this](const control::Message& message) { OnMessage(message); },
                      .on_closed = [this](const std::string& reason) { OnClosed(reason); },
                      .on_drained =
                          [this] {
                            if (program_ != nullptr) program_->PauseOutput(false);
                          }});
  connection_->Send(options_.hello);
}

void Attach::OnMessage(const control::Message& message) {
  if (const auto* output = std::get_if<control::RankOutput>(&message)) {
    printed_ = true;
    PassThrough(output->is_stderr, output->data);
  } else if (const auto* exit = std::get_if<control::AttachExit>(&message)) {
    OnRankExit(exit->exit);
  } else if (const auto* go = std::get_if<control::AttachGo>(&message)) {
    if (!options_.hello.direct || program_ != nullptr || exit_code_.has_value()) return;
    go_ = *go;
    StartProgram();
  } else if (const auto* refused = std::get_if<control::Refused>(&message)) {
    End(1, "the agent rejected this process: " + refused->reason);
  }
}

void Attach::OnClosed(const std::string& reason) {
  connection_.reset();
  if (exit_code_.has_value()) return io_.stop();
  agent_lost_ = true;
  if (program_ == nullptr) {
    return End(
        1, "lost the agent of " + host_ + " (" + reason + "); the worker is gone or terminating");
  }
  program_->Stop(kAgentLostGrace);  // when the program has ended, this process ends
}

// Ends with the exit code of the rank. If the rank ran, its output arrived before this message.
void Attach::OnRankExit(const control::RankExit& exit) {
  if (!printed_ && !exit.Clean()) {
    for (const std::string& line : exit.last_lines) PassThrough(true, line + '\n');
  }
  End(ExitCodeOf(exit), "");
}

void Attach::StartProgram() {
  for (const int descriptor : OpenDescriptors()) {
    if (std::find(inherited_.begin(), inherited_.end(), descriptor) == inherited_.end()) {
      fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    }
  }
  const std::string& directory = options_.working_dir;
  if (!directory.empty() && chdir(directory.c_str()) != 0) {
    return ReportCannotStart("cannot enter " + directory +
                             ", the working directory of the worker's "
                             "container: " +
                             std::strerror(errno));
  }
  ProcessSpec spec;
  spec.argv = options_.program;
  Environment own = options_.variables;
  if (!directory.empty()) own["PWD"] = directory;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!own.contains(std::string(text.substr(0, text.find('='))))) {
      spec.environment.emplace_back(text);
    }
  }
  for (const auto& [name, value] : own) spec.environment.push_back(name + '=' + value);
  spec.keep_stdin = true;
  spec.keep_descriptors = true;
  // The agent learns the group even if this process is killed as soon as the program runs.
  spec.on_fork = [this](pid_t group) { connection_->SendNow(control::AttachStarted{group}); };
  Result<std::shared_ptr<CapturedProcess>> started = CapturedProcess::Start(
      *reaper_, std::move(spec),
      {.on_output = [this](bool is_stderr, std::string_view data) { OnOutput(is_stderr, data); },
       .on_end = [this](ProcessEnd end, const LastLines& lines) { OnProgramEnd(end, lines); }});
  if (started.ok()) {
    program_ = *std::move(started);
    return;
  }
  ReportCannotStart(started.error().message);
}

// Prints the output for mpirun and sends it to the agent, for the worker's log.
void Attach::OnOutput(bool is_stderr, std::string_view data) {
  PassThrough(is_stderr, data);
  if (connection_ == nullptr) return;
  connection_->Send(control::RankOutput{is_stderr, std::string(data)});
  if (connection_->queued_bytes() >= kMaxQueuedOutput) program_->PauseOutput(true);
}

void Attach::ReportCannotStart(const std::string& reason) {
  PassThrough(true, "ringmaster-attach: " + reason + '\n');
  control::RankExit exit;
  exit.exit_code = control::kExitCannotStart;
  exit.last_lines = {reason};
  ReportExit(std::move(exit));
}

void Attach::OnProgramEnd(ProcessEnd end, const LastLines& last_lines) {
  reaper_->KillOrphans(kOrphansLimit);  // what the program left in sessions of its own
  if (agent_lost_) {
    return End(1, "lost the agent of " + host_ +
                      " and stopped the program; the worker is gone or terminating");
  }
  control::RankExit exit;
  exit.exit_code = end.exit_code;
  exit.signal = end.signal;
  exit.last_lines = last_lines.Lines();
  ReportExit(std::move(exit));
}

void Attach::ReportExit(control::RankExit exit) {
  exit.rank = go_.rank;
  exit.slot = options_.hello.slot;
  const int exit_code = ExitCodeOf(exit);
  if (connection_ != nullptr) connection_->Send(control::AttachExit{std::move(exit)});
  End(exit_code, "");
}

void Attach::ForwardSignals() {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) signals_.add(signal);
  signals_.async_wait([this](const boost::system::error_code& error, int signal) {
    if (error) return;
    if (program_ != nullptr) {
      program_->Signal(signal);
    } else if (signal != SIGUSR1 && signal != SIGUSR2) {
      return End(128 + signal, "");
    }
    ForwardSignals();
  });
}

// The first call sends the queued messages to the agent and then ends the event loop.
void Attach::End(int exit_code, const std::string& sentence) {
  if (exit_code_.has_value()) return;
  exit_code_ = exit_code;
  if (!sentence.empty()) PassThrough(true, "ringmaster-attach: " + sentence + '\n');
  if (connection_ == nullptr) return io_.stop();
  connection_->Finish("the rank ended");
}

}  // namespace ringmaster::agent
