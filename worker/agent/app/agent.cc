#include "worker/agent/app/agent.h"

#include <algorithm>
#include <random>
#include <unistd.h>
#include <utility>
#include <variant>

#include "common/base/log.h"
#include "common/control/exit_codes.h"
#include "worker/agent/process_table/rank_page.h"

namespace ringmaster::agent {
namespace {

constexpr std::chrono::seconds kShutdownGrace{1};
// A leaving agent stops waiting for the launcher this long before the end of its grace period.
constexpr std::chrono::milliseconds kLeaveReserve{2000};
constexpr std::chrono::milliseconds kEndMargin{
    2000};  // how long to wait after the grace period for processes to end

// How long the launcher may take to remove a Pod with a broken GPU from its world. The launcher
// removes the Pod at the ranks' next step.
constexpr std::chrono::milliseconds kGpuGrace{30'000};

// If a rank's position has not changed for this long, check whether a signal stopped the rank.
constexpr std::chrono::milliseconds kLookAfter{300};

std::string NewNonce() {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::random_device random;
  std::string nonce;
  for (int digit = 0; digit < 16; ++digit) nonce += kDigits[random() & 15U];
  return nonce;
}

std::string FirstOf(const std::string& list) { return list.substr(0, list.find(',')); }

SlotsOptions OptionsOfSlots(const Config& config, const std::string& nonce) {
  return {.pod_uid = config.pod_uid,
          .pod = config.pod,
          .node = config.node,
          .slots = config.spec.slots_per_worker,
          .elastic = config.spec.InPlace(),
          .program = config.spec.command.front(),
          .own_program = control::SpeaksRankProtocol(config.spec.command),
          .nonce = nonce};
}

}  // namespace

Agent::Agent(boost::asio::io_context& io, Config config, Credentials credentials,
             std::unique_ptr<control::TlsContext> tls, std::function<void(int)> on_end)
    : io_(io),
      config_(std::move(config)),
      credentials_(std::move(credentials)),
      nonce_(NewNonce()),
      tls_(std::move(tls)),
      on_end_(std::move(on_end)),
      reaper_(io),
      signs_(config_.runtime_dir),
      slots_(Slots::Make(OptionsOfSlots(config_, nonce_), this)),
      ranks_(io, reaper_, config_,
             {.on_output =
                  [this](int slot, bool is_stderr, std::string_view data) {
                    slots_->OnRankOutput(slot, is_stderr, data);
                  },
              .on_killed =
                  [this](int slot, const std::vector<std::string>& last_lines) {
                    OnRankKilled(slot, last_lines);
                  },
              .on_end = [this](int slot, const RankEnd& end) { OnRankEnd(slot, end); },
              .on_due = [this](int slot) { slots_->OnRestartDue(slot); }}),
      commands_(
          reaper_, config_,
          {.on_output = [this](const control::CommandOutput& output) { OnCommandOutput(output); },
           .on_exited = [this](const control::CommandExited& exited) { link_.Send(exited); }}),
      attaches_([this](int slot, bool paused) { ranks_.PauseOutput(slot, paused); }),
      peers_(io, {.on_rank = [this](PeerId peer, const control::RankHello& hello,
                                    int pid) { return OnRankHello(peer, hello, pid); },
                  .on_attach = [this](PeerId peer, const control::AttachHello& hello,
                                      int pid) { OnAttachHello(peer, hello, pid); },
                  .on_message =
                      [this](PeerId peer, control::Message message) {
                        OnPeerMessage(peer, std::move(message));
                      },
                  .on_disconnected = [this](PeerId peer) { OnPeerDisconnected(peer); },
                  .on_drained = [this](PeerId peer) { attaches_.OnDrained(peer); }}),
      link_(io, *tls_, {.address = config_.launcher_address, .port = config_.launcher_port},
            {.hello = [this] { return Hello(); },
             .on_welcome = [this](std::int64_t term) { return OnWelcome(term); },
             .on_message = [this](const control::Message& message) { OnLauncherMessage(message); },
             .on_refused = [this](const std::string& reason) { OnRefused(reason); },
             .on_drained =
                 [this] {
                   commands_.PauseOutput(false);
                   slots_->OnLauncherDrained();
                 },
             .on_heartbeat = [this] { ReportPositions(); },
             .on_unreachable = [this] { OnLauncherUnreachable(); }}),
      readiness_(
          io, reaper_, config_, credentials_,
          {.on_change = [this](const control::AgentReady&) { ReportReady(); },
           .on_gpus = [this](const GpuList& gpus) { OnGpus(gpus); },
           .on_gpu_trouble = [this](const GpuTrouble& trouble) { OnGpuTrouble(trouble); },
           .on_loadable = [this] { slots_->Preload(); },
           .on_progress =
               [this](const control::DataCacheProgress& progress) { link_.Send(progress); }}),
      end_limit_(io) {}

Result<void> Agent::Start() {
  if (Result<void> listening = peers_.Listen(config_.AgentSocket()); !listening.ok()) {
    return listening;
  }
  readiness_.Start();
  link_.Start();
  return {};
}

void Agent::Leave(const std::string& reason, std::chrono::milliseconds grace, int exit_code) {
  if (exit_code_.has_value()) return;
  if (!slots_->Leave(reason)) {
    LogInfo("Left the job", {{"reason", reason}});
    return End(grace, exit_code);
  }
  LogInfo("Asked to leave the job", {{"reason", reason}});
  leaving_ = exit_code;
  end_limit_.expires_after(std::max(grace - kLeaveReserve, std::chrono::milliseconds(0)));
  end_limit_.async_wait([this](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    LogWarn("Left the job without leaving its world first: the termination grace period is over");
    End(kShutdownGrace, *leaving_);
  });
}

void Agent::EndIfDrained() {
  if (!leaving_.has_value() || exit_code_.has_value() || !slots_->Drained()) return;
  LogInfo("Left the job, which continues without this worker");
  End(kShutdownGrace, *leaving_);
}

void Agent::ReportReady() {
  ready_pending_ = slots_->FormerProgramsRun();
  if (ready_pending_) return;
  const std::optional<control::AgentReady> ready = readiness_.Ready();
  if (!ready.has_value()) return;
  if (link_.welcomed()) {
    LogInfo("Reported the worker", {{"address", ready->address},
                                    {"sshPort", ready->ssh_port},
                                    {"faults", ready->faults.size()}});
  }
  link_.Send(*ready);
}

void Agent::ReportReadyIfPending() {
  if (ready_pending_) ReportReady();
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
  hello.highest_epoch = slots_->highest_epoch();
  return hello;
}

bool Agent::OnWelcome(std::int64_t term) {
  if (!slots_->OnWelcome(term)) return false;
  commands_.EndAll();
  if (const auto progress = readiness_.Progress(); progress.has_value()) link_.Send(*progress);
  ReportReady();
  return true;
}

void Agent::OnLauncherMessage(const control::Message& message) {
  if (const auto* start = std::get_if<control::StartEpoch>(&message)) {
    LogInfo("Started an epoch", {{"term", start->epoch.term},
                                 {"epoch", start->epoch.number},
                                 {"worldSize", start->members.size()}});
    slots_->OnStartEpoch(*start);
  } else if (const auto* change = std::get_if<control::ChangeEpoch>(&message)) {
    LogInfo("Started an epoch", {{"term", change->epoch.term}, {"epoch", change->epoch.number}});
    slots_->OnChangeEpoch(*change);
  } else if (const auto* tell = std::get_if<control::TellWorld>(&message)) {
    slots_->OnTellWorld(*tell);
  } else if (const auto* stop = std::get_if<control::StopEpoch>(&message)) {
    LogInfo("Stopped an epoch", {{"term", stop->epoch.term}, {"epoch", stop->epoch.number}});
    slots_->OnStopEpoch(*stop);
    EndIfDrained();
  } else if (const auto* prepare = std::get_if<control::PrepareEpoch>(&message)) {
    slots_->OnPrepareEpoch(*prepare);
  } else if (const auto* switch_epoch = std::get_if<control::SwitchEpoch>(&message)) {
    slots_->OnSwitchEpoch(*switch_epoch);
  } else if (const auto* release = std::get_if<control::Release>(&message)) {
    slots_->OnRelease(*release);
  } else if (const auto* hanging = std::get_if<control::EndStalledRank>(&message)) {
    slots_->OnEndStalledRank(*hanging);
  } else if (const auto* values = std::get_if<control::StoreValues>(&message)) {
    slots_->OnStoreValues(*values);
  } else if (const auto* grant = std::get_if<control::CheckpointGrant>(&message)) {
    slots_->OnCheckpointGrant(*grant);
  } else if (const auto* take = std::get_if<control::TakeCheckpoint>(&message)) {
    slots_->OnTakeCheckpoint(*take);
  } else if (const auto* run = std::get_if<control::RunCommand>(&message)) {
    commands_.Run(*run);
  } else if (const auto* end = std::get_if<control::EndCommand>(&message)) {
    commands_.End(end->id);
  } else if (std::holds_alternative<control::Shutdown>(message)) {
    LogInfo("The launcher ended the job");
    End(config_.stop_grace.value_or(kShutdownGrace), 0);
  }
}

// The refusal is final: when this process exits, the operator creates another Pod.
void Agent::OnRefused(const std::string& reason) {
  LogError("The launcher rejected this agent", {{"reason", reason}});
  End(kShutdownGrace, control::kExitFailed);
}

// Ends programs that do not run in mode InPlace. If this worker lost its network, other workers may
// start the same programs, which write the same files; otherwise the next launcher restarts them.
// Ranks in mode InPlace continue, because they write no permanent files without a launcher.
void Agent::OnLauncherUnreachable() {
  if (config_.spec.InPlace() || !slots_->AnyRankRunning()) return;
  LogWarn("Stopping the program: the launcher has been silent for too long");
  const std::chrono::milliseconds grace = config_.stop_grace.value_or(kShutdownGrace);
  slots_->OnStopEpoch({slots_->highest_epoch(), static_cast<int>(grace.count())});
}

std::string Agent::OnRankHello(PeerId peer, const control::RankHello& hello, int pid) {
  // A wrapper may have started the trainer, so the rank may be any process in the process group of
  // the slot.
  const pid_t group = ranks_.Group(hello.slot);
  if (group < 0 || getpgid(pid) != group) {
    return "process " + std::to_string(pid) + " is not the rank of slot " +
           std::to_string(hello.slot);
  }
  rank_peers_[hello.slot] = peer;
  ranks_.SetRank(hello.slot, pid);
  slots_->OnRankHello(hello.slot);
  return "";
}

void Agent::OnAttachHello(PeerId peer, const control::AttachHello& hello, int pid) {
  attaches_.Add(peer, hello.slot, pid);
  slots_->OnAttach(peer, hello);
}

void Agent::OnPeerMessage(PeerId peer, control::Message message) {
  if (attaches_.Contains(peer)) {
    if (const auto* output = std::get_if<control::RankOutput>(&message)) {
      return slots_->OnAttachOutput(peer, *output);
    }
    if (const auto* started = std::get_if<control::AttachStarted>(&message)) {
      return attaches_.SetGroup(peer, started->group);
    }
    const auto* exit = std::get_if<control::AttachExit>(&message);
    if (exit == nullptr) return peers_.Close(peer, "attach sent a message of an unexpected type");
    attaches_.SetGroup(peer, -1);
    slots_->OnAttachExit(peer, *exit);
    ReportReadyIfPending();
    return EndWhenIdle();
  }
  for (const auto& [slot, rank_peer] : rank_peers_) {
    if (rank_peer != peer) continue;
    if (!slots_->OnRankMessage(slot, message)) {
      peers_.Close(peer, "the rank sent a message of an unexpected type");
    }
    return;
  }
}

void Agent::OnPeerDisconnected(PeerId peer) {
  for (auto rank = rank_peers_.begin(); rank != rank_peers_.end(); ++rank) {
    if (rank->second != peer) continue;
    const int slot = rank->first;
    rank_peers_.erase(rank);
    return slots_->OnRankDisconnected(slot);
  }
  if (!attaches_.Contains(peer)) return;
  // The kernel kills the program of an attach that is killed, but not the program's children.
  if (const int group = attaches_.Group(peer); group > 1) ChildReaper::KillGroup(group);
  attaches_.Remove(peer);
  slots_->OnAttachDisconnected(peer);
  ReportReadyIfPending();
  EndWhenIdle();
}

// If the GPU of the rank is lost, OnRankEnd reports the lost GPU instead of the signal.
void Agent::OnRankKilled(int slot, const std::vector<std::string>& last_lines) {
  if (!gpu_health_.Lost(FirstOf(ranks_.Gpus(slot)))) slots_->OnRankKilled(slot, last_lines);
}

void Agent::OnRankEnd(int slot, RankEnd end) {
  rank_peers_.erase(slot);
  const std::string gpu = FirstOf(ranks_.Gpus(slot));
  const bool lost = gpu_health_.Lost(gpu);
  const bool meant = end.end.exit_code == 0 || exit_code_.has_value();
  if (config_.spec.InPlace() && lost && !meant) {
    end.end = {.exit_code = control::kExitDeviceUnhealthy, .signal = 0};
  }
  const bool unhealthy =
      config_.spec.InPlace() && end.end.exit_code == control::kExitDeviceUnhealthy && !meant;
  std::string fault;
  if (unhealthy) {
    fault = gpu_health_.WhyUnhealthy(slot, gpu, end.last_lines);
    end.last_lines.push_back(fault);
  }
  slots_->OnRankExit(slot, end);
  // Leave after reporting the exit: the launcher ignores exits that a leaving agent reports.
  if (unhealthy && gpu_fault_.empty()) {
    gpu_fault_ = fault;
    Leave(fault, kGpuGrace, control::kExitDeviceUnhealthy);
  }
  ReportReadyIfPending();
  EndIfDrained();
  EndWhenIdle();
}

// Assigns a GPU to each slot for the lifetime of the Pod. CUDA renumbers its devices after a device
// is lost, so a restarted rank that chose its GPU by number would use the GPU of another rank, and
// the two ranks would share it.
void Agent::OnGpus(const GpuList& gpus) {
  const auto chosen = config_.container.find("CUDA_VISIBLE_DEVICES");
  ranks_.SetGpus(AssignGpus(
      chosen == config_.container.end() ? gpus.devices : ChooseGpus(gpus.devices, chosen->second),
      config_.spec.slots_per_worker));
}

void Agent::OnGpuTrouble(const GpuTrouble& trouble) {
  LogWarn("Found an unhealthy GPU", {{"gpu", trouble.uuid}, {"what", TroubleText(trouble)}});
  if (!gpu_health_.Note(trouble) || !config_.spec.InPlace()) return;
  // Kill the rank, because it may hang in a call to the GPU forever.
  for (int slot = 0; slot < config_.spec.slots_per_worker; ++slot) {
    if (FirstOf(ranks_.Gpus(slot)) == trouble.uuid) ranks_.Kill(slot);
  }
}

// Reports positions. If a rank made no recent progress, asks the kernel whether it is stopped.
void Agent::ReportPositions() {
  slots_->EndEndlessLoading([this](int slot) { return ranks_.Age(slot); }, config_.load_limit);
  control::RankPositions report;
  for (const RankStanding& standing : slots_->InWorld()) {
    if (!config_.spec.InPlace()) {
      report.epoch = standing.epoch;
      const auto still =
          signs_.Still(std::chrono::steady_clock::now(), standing.slot, standing.epoch);
      report.ranks.push_back(
          {.rank = standing.rank, .slot = standing.slot, .still_millis = still.count()});
      continue;
    }
    const std::optional<RankPage::Reading> reading = ranks_.Position(standing.slot);
    if (!reading.has_value()) continue;
    report.epoch = standing.epoch;
    report.ranks.push_back(PositionOf(standing, *reading, control::MonotonicNanos()));
    control::RankPosition& position = report.ranks.back();
    position.stopped = position.still_millis >= kLookAfter.count() && ranks_.Stopped(standing.slot);
  }
  if (!report.ranks.empty()) link_.Send(report);
}

void Agent::End(std::chrono::milliseconds grace, int exit_code) {
  if (exit_code_.has_value()) return;
  exit_code_ = exit_code;
  slots_->End(grace);
  end_limit_.expires_after(grace + kEndMargin);
  end_limit_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) on_end_(*exit_code_);
  });
  EndWhenIdle();
}

void Agent::EndWhenIdle() {
  if (!exit_code_.has_value() || finishing_ || slots_->AnyRankRunning()) return;
  finishing_ = true;
  output_.Flush();
  readiness_.Stop();
  link_.Finish([this] { on_end_(*exit_code_); });
}

}  // namespace ringmaster::agent
