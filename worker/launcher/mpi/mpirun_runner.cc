#include "worker/launcher/mpi/mpirun_runner.h"

#include <algorithm>
#include <csignal>
#include <net/if.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/steady_timer.hpp>

#include "common/base/log.h"
#include "common/control/master_port.h"

namespace ringmaster::launcher {
namespace {

constexpr std::chrono::milliseconds kStopGrace{2000};

// Returns whether a login over ssh searches the file's folder by default.
bool OnDefaultPath(const std::string& file) {
  const std::string directory = file.substr(0, file.rfind('/'));
  return directory == "/usr/bin" || directory == "/bin" || directory == "/usr/local/bin";
}

std::string PathOf(const Environment& environment) {
  const auto path = environment.find("PATH");
  return path == environment.end() ? "/usr/local/bin:/usr/bin:/bin" : path->second;
}

}  // namespace

MpirunRunner::MpirunRunner(ChildReaper& reaper, const Config& config, std::string identity_file,
                           std::string host_public_key, OnExit on_exit)
    : reaper_(reaper),
      config_(config),
      identity_file_(std::move(identity_file)),
      host_public_key_(std::move(host_public_key)),
      on_exit_(std::move(on_exit)),
      files_(HostFilePaths(config.runtime_dir)) {}

MpirunRunner::~MpirunRunner() { Abandon(); }

void MpirunRunner::Probe(std::chrono::milliseconds limit, OnVersion on_version) {
  mpirun_ = FindProgram("mpirun", PathOf(config_.environment));
  if (mpirun_.empty()) {
    return on_version(Error{ErrorKind::kNotFound, "the launcher's image has no mpirun"});
  }
  const auto output = std::make_shared<std::string>();
  const auto timer = std::make_shared<boost::asio::steady_timer>(reaper_.io(), limit);
  const Result<void> started =
      Run({mpirun_, "--version"}, {},
          {.on_output =
               [output](bool /*is_stderr*/, std::string_view data) {
                 if (output->size() < 4096) *output += data;
               },
           .on_end =
               [this, output, timer, on_version](ProcessEnd /*end*/, const LastLines& /*lines*/) {
                 timer->cancel();
                 process_.reset();
                 Result<MpiVersion> version = ParseMpiVersion(*output);
                 if (version.ok()) version_ = *version;
                 on_version(std::move(version));
               }});
  if (!started.ok()) {
    return on_version(Error{ErrorKind::kInternal, started.error().message});
  }
  timer->async_wait([this, timer, limit, on_version](const boost::system::error_code& cancelled) {
    if (cancelled || process_ == nullptr) return;
    Abandon();
    on_version(Error{ErrorKind::kUnavailable, mpirun_ + " --version did not respond within " +
                                                  std::to_string(limit.count() / 1000) + " s"});
  });
}

void MpirunRunner::Start(const StartMpirun& start) {
  Abandon();  // kills an mpirun that is still running
  if (Result<void> started = TryStart(start); !started.ok()) {
    MpirunExit exit;
    exit.start_error = started.error().message;
    on_exit_(start.cohort, exit);
  }
}

Result<void> MpirunRunner::TryStart(const StartMpirun& start) {
  Result<void> written = WriteHostFiles(files_, start.hosts);
  if (written.ok() && !start.by_agent) {
    written = WriteSshFiles(files_, start.hosts, identity_file_, host_public_key_);
  }
  if (!written.ok()) return written;
  const MpirunPlan plan = PlanFor(start);
  const std::vector<std::string> argv = MpirunArguments(plan);
  LogInfo("Running mpirun", {{"command", QuoteCommand(argv)}});
  return Run(argv, plan,
             {.on_output = PassThrough,
              .on_end = [this, cohort = start.cohort](ProcessEnd end, const LastLines& lines) {
                process_.reset();
                on_exit_(cohort, {end.exit_code, end.signal, "", lines.Lines()});
              }});
}

Result<void> MpirunRunner::Run(std::vector<std::string> argv, const MpirunPlan& plan,
                               CapturedProcess::Handlers handlers) {
  ProcessSpec spec;
  spec.argv = std::move(argv);
  for (const auto& [name, value] : MpirunEnvironment(plan, config_.environment)) {
    spec.environment.push_back(name + '=' + value);
  }
  spec.death_signal = SIGTERM;  // on SIGTERM, mpirun notifies the workers
  auto process = CapturedProcess::Start(reaper_, std::move(spec), std::move(handlers));
  if (!process.ok()) return process.error();
  process_ = *std::move(process);
  return {};
}

MpirunPlan MpirunRunner::PlanFor(const StartMpirun& start) const {
  MpirunPlan plan;
  plan.flavour = version_.flavour;
  plan.mpirun = OnDefaultPath(mpirun_) ? "mpirun" : mpirun_;
  plan.as_root = ::geteuid() == 0;
  plan.world_size = start.world_size;
  plan.hosts = static_cast<int>(start.hosts.size());
  plan.hostfile = files_.hostfile;
  if (start.by_agent) {
    plan.rsh = config_.rsh;
    plan.rsh_socket = config_.RshSocket();
  } else {
    plan.ssh_config = files_.ssh_config;
  }
  plan.interfaces = config_.spec.interfaces;
  plan.interface_here =
      std::any_of(plan.interfaces.include.begin(), plan.interfaces.include.end(),
                  [](const std::string& name) { return ::if_nametoindex(name.c_str()) != 0; });
  // mpirun prints a warning for every process if a variable that it passes on is not set here.
  for (const std::string& name : config_.spec.mpi_pass_env) {
    if (config_.environment.contains(name)) plan.export_env.push_back(name);
  }
  plan.extra_args = config_.spec.mpi_extra_args;
  plan.program = {config_.attach, "--cohort=" + std::to_string(start.cohort)};
  if (ChoosesDirectory(plan.extra_args)) plan.program.emplace_back("--stay");
  if (!config_.spec.InPlace()) {
    plan.master_address = start.hosts.front().address;
    plan.master_port = control::MasterPortOf(config_.job_uid, {config_.term, start.cohort});
    plan.program.push_back("--");
    plan.program.insert(plan.program.end(), config_.spec.command.begin(),
                        config_.spec.command.end());
  }
  return plan;
}

void MpirunRunner::Stop() {
  if (process_) process_->Stop(kStopGrace);
}

void MpirunRunner::Abandon() {
  if (process_ == nullptr) return;
  process_->Forget();
  process_->Signal(SIGKILL);
  process_.reset();
}

}  // namespace ringmaster::launcher
