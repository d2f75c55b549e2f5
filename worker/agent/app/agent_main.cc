#include "worker/agent/app/agent_main.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

#include "common/base/byte_text.h"
#include "common/base/count_text.h"
#include "common/base/log.h"
#include "common/base/user_entry.h"
#include "common/command_line/parse_arguments.h"
#include "common/control/exit_codes.h"
#include "common/control/pod_contract.h"
#include "common/control/secrets.h"
#include "worker/agent/app/agent.h"
#include "worker/agent/app/own_checkpoints.h"
#include "worker/agent/host/gpu_watch.h"

namespace ringmaster::agent {
namespace {

constexpr std::chrono::seconds kStopGrace{10};  // if the job does not set stopGraceSeconds
constexpr std::chrono::milliseconds kKillLimit{1000};
// Limits the attempts to remove checkpoints from a volume that fails temporarily.
constexpr int kMostTries = 30;
constexpr std::chrono::seconds kBetweenTries{1};

Result<std::unique_ptr<Agent>> MakeAgent(boost::asio::io_context& io, Config config,
                                         std::function<void(int)> on_end) {
  if (Result<void> made = control::MakePrivateDirectory(config.runtime_dir); !made.ok()) {
    return made.error().WithContext("preparing the runtime directory (mount a writable volume)");
  }
  const Result<bool> named =
      EnsureUserEntry((config.runtime_dir / "nss").string(), config.runtime_dir.string());
  if (!named.ok()) return named.error();
  config.user = UserName(geteuid());
  Result<Credentials> credentials =
      PrepareCredentials(config.credentials_dir, config.item_hashes, config.runtime_dir);
  if (!credentials.ok()) return credentials.error();
  Result<std::unique_ptr<control::TlsContext>> tls = control::TlsContext::Client(
      credentials->tls_certificate, control::TlsServerName(config.job_uid));
  if (!tls.ok()) return tls.error();
  auto agent = std::make_unique<Agent>(io, std::move(config), *std::move(credentials),
                                       *std::move(tls), std::move(on_end));
  if (Result<void> started = agent->Start(); !started.ok()) return started.error();
  return agent;
}

// Writes the container's termination message, which the operator shows to users.
void WriteTerminationMessage(const std::string& message) {
  const char* const path = std::getenv(control::kEnvTerminationLog);
  std::ofstream file(path != nullptr ? path : control::kTerminationLog, std::ios::app);
  file << message;
}

int Fail(const Error& error) {
  LogError("Failed to run the agent", {{"reason", error.message}});
  WriteTerminationMessage(error.message);
  return control::kExitFailed;
}

// Creates the folder of the ranks' snapshots, which the agent removes when it ends unless it is
// killed. If the folder cannot be created, ranks take no snapshots.
void PrepareSnapshots(Config& config) {
  if (!config.spec.InPlace()) config.snapshot_dir.clear();
  if (config.snapshot_dir.empty()) return;
  const Result<void> made = control::MakePrivateDirectory(config.snapshot_dir);
  if (made.ok()) return;
  LogWarn("Disabled snapshots of the ranks' state", {{"reason", made.error().message}});
  config.snapshot_dir.clear();
}

void RemoveSnapshots(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!folder.empty()) std::filesystem::remove_all(folder, ignored);
}

// Sets HOME, USER and LOGNAME, which Python reads, for a user without a passwd entry.
void SetHomeAndUser(Config& config) {
  std::string& home = config.container["HOME"];
  if (home.empty() || access(home.c_str(), W_OK) != 0) home = "/tmp";
  for (const char* const name : {"USER", "LOGNAME"}) {
    config.container.try_emplace(name, "ringmaster");
  }
}

// Puts the Python package that is beside the agent, if there is one, first in PYTHONPATH.
void OfferPackage(Config& config) {
  std::error_code unknown;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  const std::filesystem::path folder = program.parent_path().parent_path() / control::kPythonFolder;
  if (!std::filesystem::is_directory(folder, unknown)) return;
  PutFirstInPythonPath(folder, config.container);
}

int Run() {
  const mode_t inherited = umask(077);
  Result<Config> config = ReadConfig(ProcessEnvironment(environ));
  if (!config.ok()) return Fail(config.error());
  config->mask = inherited;
  SetHomeAndUser(*config);
  OfferPackage(*config);
  PrepareSnapshots(*config);
  const std::filesystem::path snapshots = config->snapshot_dir;
  const std::chrono::milliseconds grace = config->stop_grace.value_or(kStopGrace);
  boost::asio::io_context io(1);
  int exit_code = control::kExitFailed;
  Result<std::unique_ptr<Agent>> agent = MakeAgent(io, *std::move(config), [&](int code) {
    exit_code = code;
    io.stop();
  });
  if (!agent.ok()) return Fail(agent.error());
  boost::asio::signal_set signals(io, SIGTERM, SIGINT);
  signals.async_wait([&](const boost::system::error_code& error, int signal) {
    if (!error) {
      (*agent)->Leave("the Pod is terminating (signal " + std::to_string(signal) + ")", grace,
                      control::kExitTerminated);
    }
  });
  io.run();
  if (exit_code == control::kExitDeviceUnhealthy) WriteTerminationMessage((*agent)->gpu_fault());
  RemoveSnapshots(snapshots);
  if ((*agent)->UsesVolumes()) {
    ChildReaper::KillAll(kKillLimit);
    std::fflush(nullptr);
    _exit(exit_code);
  }
  return exit_code;
}

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

std::string WhatWasRemoved(const RemovedCheckpoints& removed) {
  if (!removed.existed) return "the folder does not exist";
  return "removed " + CountText(removed.files, "file") + " of " + BytesText(removed.bytes);
}

// Removes the job's checkpoints. Each new attempt continues where the previous one failed.
int RemoveCheckpoints() {
  const CheckpointOwner owner{.volume = Variable(control::kEnvCheckpointDir),
                              .ns = Variable(control::kEnvNamespace),
                              .job = Variable(control::kEnvJobName),
                              .job_uid = Variable(control::kEnvJobUid)};
  Result<RemovedCheckpoints> removed = RemoveOwnCheckpoints(owner);
  for (int tries = 1;
       tries < kMostTries && !removed.ok() && removed.error().kind == ErrorKind::kUnavailable;
       ++tries) {
    LogWarn("Failed to remove the checkpoints, retrying", {{"reason", removed.error().message}});
    std::this_thread::sleep_for(kBetweenTries);
    removed = RemoveOwnCheckpoints(owner);
  }
  if (!removed.ok()) {
    LogError("Failed to remove the checkpoints", {{"reason", removed.error().message}});
    WriteTerminationMessage(removed.error().message);
    return control::kExitFailed;
  }
  LogInfo("Removed the checkpoints", {{"what", WhatWasRemoved(*removed)}});
  WriteTerminationMessage(WhatWasRemoved(*removed));
  return 0;
}

}  // namespace

int Main(int argc, char** argv) {
  CLI::App app("Ringmaster's agent: runs sshd and ranks on a worker for the job's launcher.");
  std::string level = "info";
  std::string format = "text";
  app.set_version_flag("--version", RINGMASTER_VERSION);
  app.add_option("--log-level", level, "debug, info, warn or error")
      ->envname("RINGMASTER_LOG_LEVEL")
      ->capture_default_str();
  app.add_option("--log-format", format, "text or json")->capture_default_str();
  bool remove_checkpoints = false;
  app.add_flag(control::kRemoveCheckpointsFlag, remove_checkpoints,
               "remove the job's folder on its checkpoint volume and exit");
  std::string nvml_library;
  app.add_option(kWatchGpusFlag, nvml_library,
                 "print the GPUs that this NVML library finds and report their errors; agents "
                 "start themselves with this option");
  try {
    ParseArguments(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  InitLog("agent", level, format == "json" ? LogFormat::kJson : LogFormat::kText);
  if (remove_checkpoints) return RemoveCheckpoints();
  if (!nvml_library.empty()) return PrintGpus(nvml_library);
  signal(SIGPIPE, SIG_IGN);
  int exit_code = control::kExitFailed;
  try {
    exit_code = Run();
  } catch (const std::exception& error) {
    LogError("The agent failed", {{"reason", error.what()}});
  }
  ChildReaper::KillAll(kKillLimit);
  return exit_code;
}

}  // namespace ringmaster::agent
