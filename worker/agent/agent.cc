#include "worker/agent/agent.h"

#include <csignal>
#include <pwd.h>
#include <random>
#include <unistd.h>
#include <utility>
#include <variant>

#include "common/base/log.h"
#include "worker/agent/address.h"
#include "worker/agent/rank_environment.h"

namespace ringmaster::agent {
namespace {

constexpr std::chrono::milliseconds kPreflightLimit{1000};
constexpr std::chrono::milliseconds kVersionGrace{100};
constexpr std::chrono::milliseconds kShutdownGrace{1000};
constexpr std::chrono::milliseconds kEndMargin{
    2000};                                         // beyond the grace period, for what does not die
constexpr std::size_t kMaxQueuedOutput = 1 << 20;  // towards one attach, then its rank waits

constexpr int kExitRefused = 1;

std::string NewNonce() {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::random_device random;
  std::string nonce;
  for (int digit = 0; digit < 16; ++digit) nonce += kDigits[random() & 15U];
  return nonce;
}

SlotsOptions OptionsOfSlots(const Config& config) {
  return {.pod_uid = config.pod_uid,
          .pod = config.pod,
          .node = config.node,
          .slots = config.spec.slots_per_worker,
          .managed = config.spec.IsManagedTrainer(),
          .program = config.spec.command.front()};
}

std::string PathOf(const Config& config) { return Variable(config, "PATH"); }

// From "mpirun (Open MPI) 5.0.7"; empty when nothing looks like it.
std::string OpenMpiVersion(const std::vector<std::string>& lines) {
  constexpr std::string_view kName = "(Open MPI) ";
  for (const std::string& line : lines) {
    const std::size_t at = line.find(kName);
    if (at != std::string::npos) return line.substr(at + kName.size());
  }
  return "";
}

}  // namespace

Agent::Agent(boost::asio::io_context& io, Config config, Credentials credentials,
             std::unique_ptr<control::TlsContext> tls, std::function<void(int)> on_end)
    : io_(io),
      config_(std::move(config)),
      credentials_(std::move(credentials)),
      nonce_(NewNonce()),
      cpus_(AvailableCpus()),
      tls_(std::move(tls)),
      on_end_(std::move(on_end)),
      reaper_(io),
      slots_(OptionsOfSlots(config_), this),
      peers_(io, {.on_rank = [this](PeerId peer, const control::RankHello& hello,
                                    int pid) { return OnRankHello(peer, hello, pid); },
                  .on_attach = [this](PeerId peer, const control::AttachHello& hello,
                                      int pid) { OnAttachHello(peer, hello, pid); },
                  .on_message =
                      [this](PeerId peer, control::Message message) {
                        OnPeerMessage(peer, std::move(message));
                      },
                  .on_gone = [this](PeerId peer) { OnPeerGone(peer); },
                  .on_drained = [this](PeerId peer) { OnPeerDrained(peer); }}),
      link_(io, *tls_, {.address = config_.launcher_address, .port = config_.launcher_port},
            {.hello = [this] { return Hello(); },
             .on_welcome = [this](std::int64_t term) { return OnWelcome(term); },
             .on_message = [this](const control::Message& message) { OnLauncherMessage(message); },
             .on_refused = [this](const std::string& reason) { OnRefused(reason); }}),
      end_limit_(io) {}

Result<void> Agent::Start() {
  if (Result<void> listening = peers_.Listen(config_.AgentSocket()); !listening.ok()) {
    return listening;
  }
  preflight_ = std::make_unique<Preflight>(
      io_, config_, WorkerChecks(), kPreflightLimit, [this](const std::vector<Finding>& findings) {
        faults_.emplace();
        for (const Finding& finding : findings) {
          LogWarn("Preflight found a fault",
                  {{"check", finding.check}, {"fault", finding.message}, {"fatal", finding.fatal}});
          if (finding.fatal) faults_->push_back({finding.check, finding.message});
        }
        ReportReady();
      });
  StartSshd();
  AskVersion();
  slots_.Preload();
  link_.Start();
  return {};
}

void Agent::Leave(const std::string& reason, std::chrono::milliseconds grace, int exit_code) {
  LogInfo("Left the job", {{"reason", reason}});
  End(grace, reason, exit_code);
}

void Agent::StartSshd() {
  const Result<std::string> address =
      FindAddress(config_.launcher_address, config_.spec.network_interface);
  if (!address.ok()) return;  // preflight says it
  address_ = *address;
  SshdOptions options;
  options.settings.listen_address = address_;
  options.settings.port = config_.spec.ssh_port;
  options.settings.host_key_file = credentials_.host_key_file;
  options.settings.authorized_keys_file = credentials_.authorized_keys_file;
  options.settings.environment = SessionEnvironment(config_.container, config_.AgentSocket());
  options.config_file = config_.runtime_dir / "sshd_config";
  options.path = PathOf(config_);
  sshd_ = std::make_unique<Sshd>(io_, reaper_, std::move(options),
                                 Sshd::Handlers{.on_ready =
                                                    [this](int port) {
                                                      ssh_port_ = port;
                                                      sshd_fault_.reset();
                                                      ReportReady();
                                                    },
                                                .on_fault =
                                                    [this](const std::string& message) {
                                                      sshd_fault_ = message;
                                                      ReportReady();
                                                    }});
  sshd_->Start();
}

// Which Open MPI this worker has: workers and launcher must have the same.
void Agent::AskVersion() {
  versions_["ringmaster"] = RINGMASTER_VERSION;
  // Whom mpirun's ssh has to log in as: a Pod may run as any uid.
  if (const passwd* const user = getpwuid(geteuid()); user != nullptr) {
    versions_["user"] = user->pw_name;
  }
  auto first_line = std::make_shared<std::string>();
  ProcessSpec spec;
  spec.argv = {"mpirun", "--version"};
  // Open MPI does not even tell its version without a home directory.
  spec.environment = {"PATH=" + PathOf(config_), "HOME=" + config_.runtime_dir.string()};
  const auto done = [this](const std::string& version) {
    if (!version.empty()) versions_["openmpi"] = version;
    versions_known_ = true;
    ReportReady();
  };
  const Result<std::shared_ptr<CapturedProcess>> asked = CapturedProcess::Start(
      io_, reaper_, std::move(spec),
      {.on_output = {}, .on_end = [done](ProcessEnd, const LastLines& lines) {
         done(OpenMpiVersion(lines.Lines()));
       }});
  if (!asked.ok()) return done("");
  const auto limit = std::make_shared<boost::asio::steady_timer>(io_, kPreflightLimit);
  limit->async_wait([limit, process = *asked](const boost::system::error_code& cancelled) {
    if (!cancelled) process->Stop(kVersionGrace);
  });
}

void Agent::ReportReady() {
  const bool sshd_settled = ssh_port_ != 0 || sshd_fault_.has_value() || sshd_ == nullptr;
  if (!faults_.has_value() || !versions_known_ || !sshd_settled) return;
  control::AgentReady ready{address_, ssh_port_, *faults_, versions_};
  if (sshd_fault_.has_value()) ready.faults.push_back({"sshd", *sshd_fault_});
  if (link_.welcomed()) {
    LogInfo("Reported the worker",
            {{"address", address_}, {"sshPort", ssh_port_}, {"faults", ready.faults.size()}});
  }
  link_.Send(ready);
}

control::AgentHello Agent::Hello() const {
  control::AgentHello hello;
  hello.token = credentials_.agent_token;
  hello.job_uid = config_.job_uid;
  hello.pod_uid = config_.pod_uid;
  hello.pod = config_.pod;
  hello.node = config_.node;
  hello.worker_index = config_.worker_index;
  hello.slots = config_.spec.slots_per_worker;
  hello.nonce = nonce_;
  hello.highest_epoch = slots_.highest_epoch();
  return hello;
}

bool Agent::OnWelcome(std::int64_t term) {
  if (!slots_.OnWelcome(term)) return false;
  ReportReady();
  return true;
}

void Agent::OnLauncherMessage(const control::Message& message) {
  if (const auto* start = std::get_if<control::StartEpoch>(&message)) {
    LogInfo("Started an epoch", {{"term", start->epoch.term},
                                 {"epoch", start->epoch.number},
                                 {"worldSize", start->members.size()}});
    slots_.OnStartEpoch(*start);
  } else if (const auto* stop = std::get_if<control::StopEpoch>(&message)) {
    LogInfo("Stopped an epoch", {{"term", stop->epoch.term}, {"epoch", stop->epoch.number}});
    slots_.OnStopEpoch(*stop);
  } else if (const auto* release = std::get_if<control::Release>(&message)) {
    slots_.OnRelease(*release);
  } else if (const auto* values = std::get_if<control::StoreValues>(&message)) {
    slots_.OnStoreValues(*values);
  } else if (std::holds_alternative<control::Shutdown>(message)) {
    LogInfo("The launcher ended the job");
    End(kShutdownGrace, "", 0);
  }
}

// Nothing will change its mind. The end of this process tells whoever made the Pod to make another.
void Agent::OnRefused(const std::string& reason) {
  LogError("The launcher refused this agent", {{"reason", reason}});
  End(kShutdownGrace, "", kExitRefused);
}

std::string Agent::OnRankHello(PeerId peer, const control::RankHello& hello, int pid) {
  const auto rank = ranks_.find(hello.slot);
  // A wrapper around the trainer is fine: whatever runs in the process group that we started for
  // the slot is its rank.
  if (rank == ranks_.end() || getpgid(pid) != rank->second->pid()) {
    return "process " + std::to_string(pid) + " is not the rank of slot " +
           std::to_string(hello.slot);
  }
  rank_peers_[hello.slot] = peer;
  slots_.OnRankHello(hello.slot);
  return "";
}

void Agent::OnAttachHello(PeerId peer, const control::AttachHello& hello, int pid) {
  attaches_[peer] = {pid, hello.slot};
  slots_.OnAttach(peer, hello);
}

void Agent::OnPeerMessage(PeerId peer, control::Message message) {
  if (attaches_.contains(peer)) {
    const auto* exit = std::get_if<control::AttachExit>(&message);
    if (exit == nullptr) return peers_.Close(peer, "attach sent what only others may send");
    slots_.OnAttachExit(peer, *exit);
    return EndWhenIdle();
  }
  for (const auto& [slot, rank_peer] : rank_peers_) {
    if (rank_peer != peer) continue;
    if (!slots_.OnRankMessage(slot, message)) {
      peers_.Close(peer, "the rank sent what only others may send");
    }
    return;
  }
}

void Agent::OnPeerGone(PeerId peer) {
  std::erase_if(rank_peers_, [&](const auto& entry) { return entry.second == peer; });
  const auto attach = attaches_.find(peer);
  if (attach == attaches_.end()) return;
  OnPeerDrained(peer);
  attaches_.erase(attach);
  slots_.OnAttachGone(peer);
  EndWhenIdle();
}

void Agent::OnPeerDrained(PeerId peer) {
  const auto attach = attaches_.find(peer);
  if (attach == attaches_.end()) return;
  const auto rank = ranks_.find(attach->second.slot);
  if (rank != ranks_.end()) rank->second->PauseOutput(false);
}

void Agent::OnRankEnd(int slot, ProcessEnd end, const LastLines& last_lines) {
  LogInfo("A rank ended", {{"slot", slot}, {"exitCode", end.exit_code}, {"signal", end.signal}});
  ranks_.erase(slot);
  rank_peers_.erase(slot);
  slots_.OnRankExit(slot, end, last_lines.Lines());
  EndWhenIdle();
}

void Agent::SendToLauncher(const control::Message& message) { link_.Send(message); }

void Agent::SendToRank(int slot, const control::Message& message) {
  const auto peer = rank_peers_.find(slot);
  if (peer != rank_peers_.end()) peers_.Send(peer->second, message);
}

void Agent::SendToAttach(AttachId attach, const control::Message& message) {
  peers_.Send(attach, message);
  const auto peer = attaches_.find(attach);
  if (peer == attaches_.end() || peers_.QueuedBytes(attach) < kMaxQueuedOutput) return;
  const auto rank = ranks_.find(peer->second.slot);
  if (rank != ranks_.end()) rank->second->PauseOutput(true);
}

void Agent::StopAttach(AttachId attach, std::chrono::milliseconds grace) {
  const auto peer = attaches_.find(attach);
  if (peer == attaches_.end()) return;
  kill(peer->second.pid, SIGTERM);
  const auto limit = std::make_shared<boost::asio::steady_timer>(io_, grace);
  limit->async_wait([this, limit, attach](const boost::system::error_code& cancelled) {
    const auto late = attaches_.find(attach);  // still connected, so its pid is still its own
    if (!cancelled && late != attaches_.end()) kill(late->second.pid, SIGKILL);
  });
}

void Agent::CloseAttach(AttachId attach) {
  attaches_.erase(attach);
  peers_.Close(attach, "its launcher is gone");
}

Result<void> Agent::StartRank(int slot) {
  ProcessSpec spec;
  spec.argv = config_.spec.command;
  spec.environment = RankEnvironment(config_, slot, cpus_);
  Result<std::shared_ptr<CapturedProcess>> started = CapturedProcess::Start(
      io_, reaper_, std::move(spec),
      {.on_output = [this, slot](
                        bool is_stderr,
                        std::string_view data) { slots_.OnRankOutput(slot, is_stderr, data); },
       .on_end = [this, slot](ProcessEnd end,
                              const LastLines& lines) { OnRankEnd(slot, end, lines); }});
  if (!started.ok()) return started.error();
  LogInfo("Started a rank", {{"slot", slot}, {"pid", (*started)->pid()}});
  ranks_[slot] = *std::move(started);
  return {};
}

void Agent::StopRank(int slot, std::chrono::milliseconds grace) {
  const auto rank = ranks_.find(slot);
  if (rank != ranks_.end()) rank->second->Stop(grace);
}

void Agent::PrintLocally(int slot, int rank, bool is_stderr, std::string_view data) {
  output_.Print(slot, rank, is_stderr, data);
}

void Agent::End(std::chrono::milliseconds grace, const std::string& leaving, int exit_code) {
  if (exit_code_.has_value()) return;
  exit_code_ = exit_code;
  slots_.End(grace, leaving);
  end_limit_.expires_after(grace + kEndMargin);
  end_limit_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) on_end_(*exit_code_);
  });
  EndWhenIdle();
}

void Agent::EndWhenIdle() {
  if (!exit_code_.has_value() || finishing_ || slots_.AnyRankRunning()) return;
  finishing_ = true;
  output_.Flush();
  if (sshd_ != nullptr) sshd_->Stop();
  link_.Finish([this] { on_end_(*exit_code_); });
}

}  // namespace ringmaster::agent
