#include "worker/agent/app/worker_readiness.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <boost/asio/steady_timer.hpp>

#include "common/base/log.h"
#include "common/control/pod_contract.h"
#include "common/process/captured_process.h"
#include "worker/agent/host/address.h"
#include "worker/agent/preflight/program_needs.h"

namespace ringmaster::agent {
namespace {

// Long enough for a slow node and an image whose files are fetched when they are read.
constexpr std::chrono::milliseconds kPreflightLimit{30'000};
constexpr std::chrono::milliseconds kAnswerLimit{10'000};
constexpr std::chrono::milliseconds kAnswerGrace{100};
constexpr std::size_t kLongestAnswer = 64 << 10;

// Returns the version in "mpirun (Open MPI) 5.0.7"; empty if there is none.
std::string OpenMpiVersion(const std::string& answer) {
  constexpr std::string_view kName = "(Open MPI) ";
  const std::size_t at = answer.find(kName);
  if (at == std::string::npos) return "";
  const std::size_t version = at + kName.size();
  return answer.substr(version, answer.find_first_of("\r\n", version) - version);
}

// Returns the agent's path, whose file name selects the program in a combined file (worker/tools).
std::string OwnProgram() {
  std::error_code unknown;
  return std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path() /
         control::kAgentProgram;
}

}  // namespace

WorkerReadiness::WorkerReadiness(boost::asio::io_context& io, ChildReaper& reaper,
                                 const Config& config, const Credentials& credentials,
                                 Handlers handlers)
    : io_(io),
      reaper_(reaper),
      config_(config),
      credentials_(credentials),
      handlers_(std::move(handlers)) {}

void WorkerReadiness::Start() {
  versions_["ringmaster"] = RINGMASTER_VERSION;
  preflight_ = std::make_unique<Preflight>(
      io_, config_, WorkerChecks(), kPreflightLimit,
      [this](const std::vector<Finding>& findings) { OnChecked(findings); });
  FindGpus();
  FillCache();
}

void WorkerReadiness::Stop() {
  if (sshd_ != nullptr) sshd_->Stop();
  if (gpu_watch_ != nullptr) gpu_watch_->Stop();
  if (data_cache_ != nullptr) data_cache_->Stop();
}

bool WorkerReadiness::UsesVolumes() const {
  return preflight_->Running() || (data_cache_ != nullptr && data_cache_->Running());
}

std::optional<control::AgentReady> WorkerReadiness::Ready() const {
  const bool sshd_settled = ssh_port_ != 0 || sshd_fault_.has_value() || sshd_ == nullptr;
  if (!faults_.has_value() || questions_ > 0 || !sshd_settled || !gpus_known_) {
    return std::nullopt;
  }
  control::AgentReady ready{address_, ssh_port_, *faults_, versions_};
  ready.faults.insert(ready.faults.end(), program_faults_.begin(), program_faults_.end());
  if (gpu_fault_.has_value()) ready.faults.push_back(*gpu_fault_);
  const bool fine = std::ranges::all_of(ready.faults, control::DependsOnTheStarter,
                                        &control::PreflightFault::check);
  if (sshd_fault_.has_value()) ready.faults.push_back({control::kCheckSshdStart, *sshd_fault_});
  if (data_fault_.has_value()) ready.faults.push_back({"data-cache", *data_fault_});
  const bool filling = data_cache_ != nullptr && !data_cache_->ended();
  if (filling && fine) return std::nullopt;  // sshd may recover while the cache is filled
  return ready;
}

std::optional<control::DataCacheProgress> WorkerReadiness::Progress() const {
  return data_cache_ == nullptr ? std::nullopt : data_cache_->Progress();
}

// Finding and starting a program blocks if a volume hangs, so it has to wait for the checks.
void WorkerReadiness::OnChecked(const std::vector<Finding>& findings) {
  std::vector<control::PreflightFault> faults;
  for (const Finding& finding : findings) Note(finding, faults);
  const Result<std::string> address =
      FindAddress(config_.launcher_address, config_.spec.interfaces);
  if (address.ok()) address_ = *address;  // preflight reports the error
  volumes_respond_ = std::ranges::none_of(findings, &Finding::timed_out);
  if (volumes_respond_) {
    StartSshd();
    AskVersion();
    AskAboutProgram();
  }
  LoadIfPossible();
  faults_ = std::move(faults);  // last, because the worker is not ready before
  Notify();
}

void WorkerReadiness::StartSshd() {
  if (address_.empty()) return;
  // sshd is not needed if mpirun starts nothing here, uses this agent, or cannot log in.
  const bool no_use = config_.spec.PerWorker() ||
                      config_.spec.launch_agent == control::LaunchAgent::kAgent ||
                      config_.user.empty();
  if (no_use || FindSshd(config_.Path()).empty()) return;
  SshdOptions options;
  options.settings.listen_address = address_;
  options.settings.port = config_.spec.ssh_port;
  options.settings.host_key_file = credentials_.host_key_file;
  options.settings.authorized_keys_file = credentials_.authorized_keys_file;
  std::error_code unknown;  // if the directory was removed, sessions start in the user's home
  options.settings.environment =
      SessionEnvironment(config_.container, config_.AgentSocket(),
                         std::filesystem::current_path(unknown).string(), geteuid() == 0);
  options.config_file = config_.runtime_dir / "sshd_config";
  options.path = config_.Path();
  sshd_ = std::make_unique<Sshd>(io_, reaper_, std::move(options),
                                 Sshd::Handlers{.on_ready =
                                                    [this](int port) {
                                                      ssh_port_ = port;
                                                      sshd_fault_.reset();
                                                      Notify();
                                                    },
                                                .on_fault =
                                                    [this](const std::string& message) {
                                                      sshd_fault_ = message;
                                                      Notify();
                                                    }});
  sshd_->Start();
}

// Reports the worker's Open MPI version, which must be the same as the launcher's.
void WorkerReadiness::AskVersion() {
  // mpirun's ssh has to log in with this user name, because a Pod may run as any uid.
  if (!config_.user.empty()) versions_["user"] = config_.user;
  // Without a home directory, Open MPI does not print its version.
  Ask({"mpirun", "--version"}, {"PATH=" + config_.Path(), "HOME=" + config_.runtime_dir.string()},
      [this](const std::string& answer) {
        if (const std::string version = OpenMpiVersion(answer); !version.empty()) {
          versions_["openmpi"] = version;
        }
      });
}

void WorkerReadiness::AskAboutProgram() {
  for (Question& question : QuestionsAboutProgram(config_)) {
    Ask(std::move(question.argv), std::move(question.environment),
        [this, judge = std::move(question.judge)](const std::string& answer) {
          if (const auto finding = judge(answer)) Note(*finding, program_faults_);
        });
  }
}

void WorkerReadiness::Ask(std::vector<std::string> argv, std::vector<std::string> environment,
                          std::function<void(const std::string& answer)> done) {
  ++questions_;
  const auto answer = std::make_shared<std::string>();
  const auto ended = [this, answer, done = std::move(done)] {
    --questions_;
    done(*answer);
    Notify();
  };
  ProcessSpec spec;
  spec.argv = std::move(argv);
  spec.environment = std::move(environment);
  const Result<std::shared_ptr<CapturedProcess>> asked =
      CapturedProcess::Start(reaper_, std::move(spec),
                             {.on_output =
                                  [answer](bool, std::string_view data) {
                                    answer->append(data.substr(0, kLongestAnswer - answer->size()));
                                  },
                              .on_end = [ended](ProcessEnd, const LastLines&) { ended(); }});
  if (!asked.ok()) return ended();
  const auto limit = std::make_shared<boost::asio::steady_timer>(io_, kAnswerLimit);
  limit->async_wait([limit, process = *asked](const boost::system::error_code& cancelled) {
    if (!cancelled) process->Stop(kAnswerGrace);
  });
}

void WorkerReadiness::Note(const Finding& finding,
                           std::vector<control::PreflightFault>& faults) const {
  // This is not a failure yet, because the launcher decides whether mpirun starts the ranks.
  if (control::OnlyMpirunNeeds(finding.check)) {
    LogInfo("mpirun cannot start ranks on this worker", {{"what", finding.message}});
  } else if (finding.check == control::kCheckMpiProgram) {
    LogInfo("Only mpirun can start the ranks of this program", {{"reason", finding.message}});
  } else if (!finding.fault) {
    LogInfo("Inspected the program", {{"check", finding.check}, {"what", finding.message}});
  } else {
    LogWarn("Failed a preflight check",
            {{"check", finding.check}, {"fault", finding.message}, {"fatal", finding.fatal}});
  }
  if (finding.fatal) faults.push_back({finding.check, finding.message});
}

void WorkerReadiness::FindGpus() {
  gpus_known_ = config_.gpus == 0;
  if (gpus_known_) return;
  std::vector<std::string> environment;
  for (const auto& [name, value] : config_.container) environment.push_back(name + '=' + value);
  gpu_watch_ = std::make_unique<GpuWatch>(
      io_, reaper_,
      GpuWatch::Options{.argv = {OwnProgram(), kWatchGpusFlag, config_.nvml_library},
                        .environment = std::move(environment)},
      GpuWatch::Handlers{.on_list =
                             [this](const GpuList& gpus) {
                               if (!gpus.problem.empty()) {
                                 LogWarn("Failed to list GPUs", {{"reason", gpus.problem}});
                               }
                               if (const std::optional<Finding> fault = CheckGpus(config_, gpus)) {
                                 LogWarn("Failed a preflight check",
                                         {{"check", fault->check}, {"fault", fault->message}});
                                 gpu_fault_ = {fault->check, fault->message};
                               }
                               gpus_known_ = true;
                               handlers_.on_gpus(gpus);
                               LoadIfPossible();
                               Notify();
                             },
                         .on_trouble = handlers_.on_gpu_trouble});
}

void WorkerReadiness::LoadIfPossible() {
  if (volumes_respond_ && data_there_ && gpus_known_ && !gpu_fault_) handlers_.on_loadable();
}

void WorkerReadiness::FillCache() {
  data_there_ = !config_.data_cache.has_value();
  if (data_there_) return LoadIfPossible();
  data_cache_ = std::make_unique<DataCache>(
      io_, *config_.data_cache,
      DataCache::Handlers{.on_progress = handlers_.on_progress,
                          .on_end = [this](const std::optional<std::string>& fault) {
                            data_fault_ = fault;
                            if (fault.has_value()) {
                              LogWarn("Failed to fill the data cache", {{"reason", *fault}});
                            } else {
                              data_there_ = true;
                              LoadIfPossible();
                            }
                            Notify();
                          }});
}

void WorkerReadiness::Notify() {
  if (const std::optional<control::AgentReady> ready = Ready(); ready.has_value()) {
    handlers_.on_change(*ready);
  }
}

}  // namespace ringmaster::agent
