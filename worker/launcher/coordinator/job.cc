// Handles the events of any job: agents connect, send messages and disconnect.

#include "worker/launcher/coordinator/job.h"

#include <algorithm>
#include <utility>

#include "common/base/count_text.h"
#include "common/base/log.h"
#include "common/control/secrets.h"

namespace ringmaster::launcher {

using control::LauncherPhase;

namespace {

// The maximum number of heartbeats per second. With more agents, each agent sends fewer of them.
constexpr int kBeatsASecond = 2500;
// The number of missed heartbeats after which an agent counts as silent.
constexpr int kBeatsBeforeLoss = 4;

// How long the status continues to report a Pod that is no longer ordered.
constexpr std::chrono::seconds kRemembered{60};

}  // namespace

Job::Job(const CoordinatorOptions& options)
    : options_(options),
      through_agents_(options.launch_agent == control::LaunchAgent::kAgent),
      failures_(options_) {
  world_ = CurrentWorld({options_.term, 0}, {});
}

Result<Actions> Job::OnOrder(Time now, const control::Order& order) {
  if (order_ && order.stamp < order_->stamp) {
    return Error{ErrorKind::kConflict, "a newer order has been received"};
  }
  if (phase_ == LauncherPhase::kWaitingForOrder) {
    phase_ = LauncherPhase::kWaitingForAgents;
    waiting_since_ = now;
  }
  if (order_) {
    for (const control::DesiredWorker& before : order_->workers) {
      left_order_at_.try_emplace(before.pod_uid, now);
    }
  }
  order_ = order;
  ordered_.clear();
  for (const control::DesiredWorker& wanted : order.workers) {
    left_order_at_.erase(wanted.pod_uid);
    ordered_.insert(wanted.pod_uid);
  }
  for (const std::string& pod_uid : order.dead) {
    Worker& worker = workers_.Entry(pod_uid);  // a stale Pod may still connect
    worker.hello.pod_uid = pod_uid;
    MarkDead(now, worker, control::kCausePodGone, "its Pod has terminated");
  }
  Advance(now);
  return std::exchange(actions_, {});
}

Actions Job::OnHello(Time now, ConnectionId connection, const control::AgentHello& hello) {
  const auto refuse = [&](const std::string& reason) {
    LogWarn("Rejected an agent", {{"pod", hello.pod}, {"reason", reason}});
    return Actions{Refuse{connection, reason}};
  };
  if (hello.protocol < control::kFirstProtocol) {
    return refuse("it speaks protocol " + std::to_string(hello.protocol) +
                  ", but this launcher requires at least " +
                  std::to_string(control::kFirstProtocol) + "; use the same image for both");
  }
  if (!control::SecretsEqual(hello.token, options_.agent_token)) return refuse("wrong token");
  if (hello.job_uid != options_.job_uid || hello.pod_uid.empty()) return refuse("wrong job");
  if (hello.slots != options_.slots) {
    return refuse("it has " + CountText(hello.slots, "slot") + ", but the job requires " +
                  std::to_string(options_.slots));
  }
  if (hello.highest_epoch.term > options_.term) {
    // Do not refuse the agent: a refusal would end it, and it belongs to a newer launcher.
    return {Drop{connection, "a newer launcher leads this job"}};
  }
  if (phase_ == LauncherPhase::kFinished) {
    return {SendTo{connection, MakeWelcome()}, SendTo{connection, control::Shutdown{}}};
  }
  Worker& worker = workers_.Entry(hello.pod_uid);
  if (worker.Fenced()) return refuse("this Pod was declared lost and has been replaced");
  if (worker.connection) {
    actions_.push_back(Drop{*worker.connection, "the agent reconnected"});
  }
  const bool restarted = !worker.hello.nonce.empty() && worker.hello.nonce != hello.nonce;
  worker.hello = hello;
  workers_.Connect(worker, connection);
  worker.last_heard = worker.welcomed_at = now;
  worker.ready.reset();
  worker.filling.reset();
  worker.repeated = false;
  worker.standing = Standing::kTrusted;
  worker.told = {};
  for (auto& [slot, process] : worker.processes) process.loaded.clear();  // reported again
  highest_number_ = std::max(highest_number_, hello.highest_epoch.number);
  if (!first_hello_at_) first_hello_at_ = now;
  Send(worker, MakeWelcome());
  if (restarted) {
    OnRestartedAgent(now, worker);
  } else {
    Welcome(worker);
  }
  unsettled_ = true;
  return std::exchange(actions_, {});
}

// The ranks ended together with the agent that started them, so their exits are never reported.
void Job::OnRestartedAgent(Time now, Worker& worker) {
  const std::string& pod_uid = worker.hello.pod_uid;
  worker.leaving = false;
  checkpoints_.Forget(pod_uid);
  worker.stopping.clear();
  worker.processes.clear();
  if (!world_.Contains(pod_uid)) return;
  for (const int rank : world_.RanksOf(pod_uid)) {
    const control::Member& member = world_.member(rank);
    exits_.try_emplace({pod_uid, member.slot});
    NoteEnd(now, member);
  }
  if (!WorldCanChange()) {
    return Stop(now, "the agent of " + NameOf(pod_uid) + " was restarted",
                control::kCauseAgentRestarted, &worker);
  }
  if (!released_at_) NoteLoss(now, worker, control::kCauseAgentRestarted, now);
}

Actions Job::OnMessage(Time now, ConnectionId connection, const control::Message& message) {
  Worker* found = workers_.ByConnection(connection);
  if (found == nullptr || phase_ == LauncherPhase::kFinished) return {};
  Worker& worker = *found;
  worker.last_heard = now;
  const bool expected = HandleMessage(now, worker, message);
  if (!expected) {
    actions_.push_back(
        Drop{connection, "agents do not send " + std::string(control::TypeName(message))});
    workers_.Disconnect(now, worker);
  }
  if (!CanWait(message)) unsettled_ = true;
  return std::exchange(actions_, {});
}

bool Job::CanWait(const control::Message& message) const {
  return std::holds_alternative<control::RankPositions>(message) ||
         std::holds_alternative<control::RankProgress>(message) ||
         std::holds_alternative<control::Heartbeat>(message) ||
         std::holds_alternative<control::StoreSet>(message) ||
         std::holds_alternative<control::StoreGet>(message) ||
         std::holds_alternative<control::SlotOutput>(message);
}

Actions Job::Settle(Time now) {
  if (unsettled_) Advance(now);
  return std::exchange(actions_, {});
}

void Job::On(Time now, Worker& worker, const control::AgentReady& ready) {
  if (!worker.ready) worker.ready_since = now;
  worker.ready = ready;
  TakeFaults(worker);
  worker.filling.reset();
  worker.address = ready.address;
  // The port of an sshd that does not keep running refuses connections, but the worker is not dead.
  const bool sshd_ended = std::ranges::any_of(
      ready.faults, [](const auto& fault) { return fault.check == control::kCheckSshdStart; });
  worker.ssh_port = sshd_ended ? 0 : ready.ssh_port;
}

void Job::On(Time now, Worker& worker, const control::DataCacheProgress& progress) {
  if (progress.bytes_done < 0 || progress.bytes_done > progress.bytes_total) return;
  if (!worker.filling || worker.filling->bytes_done != progress.bytes_done) worker.filled_at = now;
  worker.filling = progress;
}

// An agent repeats its reports before its first heartbeat, so they are now complete.
void Job::On(Time /*now*/, Worker& worker, const control::Heartbeat& /*heartbeat*/) {
  if (!worker.repeated) unsettled_ = true;
  worker.repeated = true;
}

void Job::On(Time now, Worker& worker, const control::SlotAttached& attached) {
  if (phase_ != LauncherPhase::kStarting || attached.cohort != startup_.cohort()) return;
  startup_.Attach(now, worker.hello.pod_uid, attached);
}

void Job::On(Time now, Worker& worker, const control::AgentLeaving& leaving) {
  worker.leaving = true;
  if (world_.Contains(worker.hello.pod_uid) && !released_at_ && !WorldCanChange()) {
    Stop(now, NameOf(worker.hello.pod_uid) + " leaves: " + leaving.reason, control::kCauseLeft,
         &worker);
  }
}

void Job::On(Time /*now*/, Worker& worker, const control::StoreSet& set) {
  if (phase_ != LauncherPhase::kRunning || !world_.Contains(worker.hello.pod_uid)) return;
  const bool refused_before = !store_.refusal().empty();
  Answer(worker, refused_before, store_.Set(set));
}

void Job::On(Time /*now*/, Worker& worker, const control::StoreGet& get) {
  if (phase_ != LauncherPhase::kRunning || !world_.Contains(worker.hello.pod_uid)) return;
  const bool refused_before = !store_.refusal().empty();
  Answer(worker, refused_before, store_.Get(worker.hello.pod_uid, get));
}

// Sends the answers to a value or request of `worker`. Logs the first refusal of each world.
void Job::Answer(const Worker& worker, bool refused_before,
                 const std::vector<RendezvousStore::Answer>& answers) {
  for (const auto& answer : answers) Send(workers_.At(answer.pod_uid), answer.values);
  if (refused_before || store_.refusal().empty()) return;
  LogWarn("Refused rendezvous data", {{"pod", worker.hello.pod}, {"reason", store_.refusal()}});
}

void Job::On(Time now, Worker& worker, const control::RankProgress& progress) {
  if (progress.epoch != world_.epoch() || phase_ != LauncherPhase::kRunning ||
      !world_.Contains(worker.hello.pod_uid)) {
    return;
  }
  progress_ = progress.progress;
  NoteCommitted(progress.progress.step);
  recovery_.Progressed(now, world_.epoch(), progress.progress.step);
}

void Job::On(Time /*now*/, Worker& /*worker*/, const control::WorldReport& report) {
  highest_number_ = std::max(highest_number_, report.epoch.number);
}

void Job::On(Time /*now*/, Worker& worker, const control::SlotOutput& output) {
  const std::string whose = output.rank >= 0 ? "1," + std::to_string(output.rank)
                                             : worker.hello.pod + "/" + std::to_string(output.slot);
  actions_.push_back(Print{whose, output.is_stderr, output.data});
}

void Job::On(Time /*now*/, Worker& worker, const control::RankProtection& protection) {
  if (protection.slot < 0 || protection.slot >= options_.slots || protection.what.size() > 32) {
    return;
  }
  checkpoints_.Protection(worker.hello.pod_uid, worker.hello.pod, protection);
}

Actions Job::OnClosed(Time now, ConnectionId connection) {
  Worker* found = workers_.ByConnection(connection);
  if (found == nullptr) return {};
  Worker& worker = *found;
  workers_.Disconnect(now, worker);
  const bool asks = phase_ == LauncherPhase::kStarting || WorldCanChange();
  if (asks && world_.Contains(worker.hello.pod_uid) && worker.ssh_port != 0) {
    actions_.push_back(Probe{worker.hello.pod_uid, worker.address, worker.ssh_port});
  }
  unsettled_ = true;
  return std::exchange(actions_, {});
}

Actions Job::OnProbe(Time now, const std::string& pod_uid, bool refused) {
  Worker* worker = workers_.Find(pod_uid);
  if (worker == nullptr || !refused || worker->connection) return {};
  MarkDead(now, *worker, control::kCauseAgentLost,
           "its connection broke and its port refuses connections");
  unsettled_ = true;
  return std::exchange(actions_, {});
}

Actions Job::OnMpirunExited(Time now, int64_t cohort, const MpirunExit& exit) {
  if (cohort != startup_.cohort()) return {};
  startup_.MpirunExited(now, exit);
  Advance(now);
  return std::exchange(actions_, {});
}

Actions Job::OnTick(Time now) {
  if (phase_ == LauncherPhase::kFinished) return {};
  if (last_tick_ != Time{} && now - last_tick_ > options_.late_tick) {
    // This launcher was suspended and has not yet read the messages that agents sent meanwhile.
    for (auto& [uid, worker] : workers_) {
      worker.last_heard = now;
      worker.disconnected_at = now;
    }
    OnLateTick(now);
  }
  last_tick_ = now;
  std::erase_if(left_order_at_,
                [&](const auto& entry) { return now - entry.second >= kRemembered; });
  SendHeartbeats();
  JudgeSilence(now);
  Advance(now);
  return std::exchange(actions_, {});
}

control::Welcome Job::MakeWelcome() const {
  return {.term = options_.term,
          .heartbeat_millis = static_cast<int>(Heartbeat().count()),
          .lost_after_millis = static_cast<int>(options_.lost_after.count())};
}

// Returns the interval at which an agent and the launcher send each other heartbeats.
std::chrono::milliseconds Job::Heartbeat() const {
  const std::chrono::milliseconds a_second_each =
      std::chrono::seconds(workers_.connections().size());
  return std::clamp(a_second_each / kBeatsASecond, options_.heartbeat,
                    std::max(options_.heartbeat, options_.lost_after / kBeatsBeforeLoss));
}

// Call at every tick. Sends heartbeats to some agents, so that each agent gets one per interval.
void Job::SendHeartbeats() {
  const std::chrono::milliseconds beat = Heartbeat();
  const int64_t ticks = beat / options_.heartbeat;
  NoteHeartbeat(beat);
  ++tick_;
  SendToAll all{{}, control::Heartbeat{static_cast<int>(beat.count())}};
  for (const auto& [connection, pod_uid] : workers_.connections()) {
    if ((connection + tick_) % ticks == 0) all.connections.push_back(connection);
  }
  if (!all.connections.empty()) actions_.push_back(std::move(all));
}

Actions Job::OnTerminate(Time now) {
  if (phase_ == LauncherPhase::kFinished) return {};
  if (released_at_ && PodsWithReleasedRanks().empty()) {
    Succeed(now);
    return std::exchange(actions_, {});
  }
  const bool ranks_wait = WorldCanChange() || phase_ == LauncherPhase::kAdopting;
  if (!ranks_wait) {
    SendToPods(world_.pods(), StopWorld());
  }
  if (startup_.mpirun_runs()) actions_.push_back(StopMpirun{});
  phase_ = LauncherPhase::kFinished;
  return std::exchange(actions_, {});
}

Actions Job::OnOwnFailure(Time now, const std::string& reason, const std::string& message) {
  if (phase_ != LauncherPhase::kFinished) Fail(now, {reason, message});
  return std::exchange(actions_, {});
}

int64_t Job::CommittedStep() const { return progress_ ? progress_->step : 0; }

void Job::NoteCommitted(int64_t step) { failures_.Committed(step); }

void Job::Send(const Worker& worker, const control::Message& message) {
  if (worker.connection) actions_.push_back(SendTo{*worker.connection, message});
}

void Job::SendToPods(const std::set<std::string>& pod_uids, const control::Message& message) {
  SendToAll all{{}, message};
  for (const std::string& pod_uid : pod_uids) {
    const Worker& worker = workers_.At(pod_uid);
    if (worker.connection) all.connections.push_back(*worker.connection);
  }
  if (!all.connections.empty()) actions_.push_back(std::move(all));
}

// Sends the newest world to all of its Pods. Pods that have the previous world get the difference.
void Job::SendWorld(std::optional<control::ChangeEpoch> difference) {
  if (difference) difference->full_size = world_.full_size();
  std::set<std::string> behind;
  std::set<std::string> others;
  for (const std::string& pod_uid : world_.pods()) {
    Worker& worker = workers_.At(pod_uid);
    (difference && worker.told == difference->base ? behind : others).insert(pod_uid);
    worker.told = world_.epoch();
  }
  if (!behind.empty()) SendToPods(behind, *difference);
  if (!others.empty()) SendToPods(others, StartOfWorld());
}

}  // namespace ringmaster::launcher
