#include "worker/launcher/membership.h"

#include <algorithm>

#include "common/base/log.h"
#include "common/control/secrets.h"

namespace ringmaster::launcher {

using control::LauncherPhase;

namespace {

// Heartbeats that a rank's position may be old; of those that come more seldom than usual.
constexpr int kFreshBeats = 10;
constexpr int kFreshSeldomBeats = 3;
// What agents say in a second by themselves is bounded: with more of them each says it more seldom.
constexpr int kBeatsASecond = 2500;
// Of which so many pass before silence is one.
constexpr int kBeatsBeforeLoss = 4;

}  // namespace

Membership::Membership(MembershipOptions options)
    : options_(std::move(options)),
      stall_watch_(options_.stall_floor, kFreshBeats * options_.heartbeat),
      restarts_(options_.restart_limit, options_.restart_window),
      crashes_(options_.crash_limit) {
  epoch_ = {options_.term, 0};
}

Result<Actions> Membership::OnOrder(Time now, const control::Order& order) {
  if (order_ && order.stamp < order_->stamp) {
    return Error{ErrorKind::kConflict, "an order with a higher stamp was seen"};
  }
  if (phase_ == LauncherPhase::kWaitingForOrder) {
    phase_ = LauncherPhase::kWaitingForAgents;
    waiting_since_ = now;
  }
  if (order_) {
    for (const control::DesiredWorker& before : order_->workers) {
      unwanted_since_.try_emplace(before.pod_uid, now);
    }
  }
  std::erase_if(unwanted_since_,
                [&](const auto& entry) { return now - entry.second > std::chrono::minutes(1); });
  order_ = order;
  ordered_.clear();
  for (const control::DesiredWorker& wanted : order.workers) {
    unwanted_since_.erase(wanted.pod_uid);
    ordered_.insert(wanted.pod_uid);
  }
  for (const std::string& pod_uid : order.dead) {
    Worker& worker = workers_[pod_uid];  // its ghost may still dial
    worker.hello.pod_uid = pod_uid;
    Bury(now, worker, "PodGone", "its Pod has ended");
  }
  Advance(now);
  return std::exchange(actions_, {});
}

Actions Membership::OnMpiVersion(Time now, const std::string& version) {
  openmpi_version_ = version;
  Advance(now);
  return std::exchange(actions_, {});
}

Actions Membership::OnHello(Time now, ConnectionId connection, const control::AgentHello& hello) {
  const auto refuse = [&](const std::string& reason) {
    LogWarn("Refused an agent", {{"pod", hello.pod}, {"reason", reason}});
    return Actions{Refuse{connection, reason}};
  };
  if (hello.protocol < control::kFirstProtocol) {
    return refuse("it speaks protocol " + std::to_string(hello.protocol) +
                  ", this launcher knows none below " + std::to_string(control::kFirstProtocol) +
                  ": use one image for both");
  }
  if (!control::SecretsEqual(hello.token, options_.agent_token)) return refuse("wrong token");
  if (hello.job_uid != options_.job_uid || hello.pod_uid.empty()) return refuse("wrong job");
  if (hello.slots != options_.slots) {
    return refuse("it has " + std::to_string(hello.slots) + " slots, the job wants " +
                  std::to_string(options_.slots));
  }
  if (hello.highest_epoch.term > options_.term) {
    // No word of refusal, which would end the agent: it belongs to our successor.
    return {Drop{connection, "a newer launcher leads this job"}};
  }
  if (phase_ == LauncherPhase::kFinished) {
    return {
        SendTo{connection, control::Welcome{options_.term, static_cast<int>(Heartbeat().count())}},
        SendTo{connection, control::Shutdown{}}};
  }
  Worker& worker = workers_[hello.pod_uid];
  if (worker.lost) return refuse("this Pod was declared lost; its place went to another one");
  if (worker.connection) {
    connections_.erase(*worker.connection);
    actions_.push_back(Drop{*worker.connection, "the agent dialled again"});
  }
  const bool restarted = !worker.hello.nonce.empty() && worker.hello.nonce != hello.nonce;
  worker.hello = hello;
  worker.connection = connection;
  worker.last_heard = worker.welcomed_at = now;
  worker.ready.reset();
  worker.filling.reset();
  worker.repeated = false;
  worker.silent = false;
  worker.told = {};
  for (auto& [slot, process] : worker.processes) process.loaded.clear();  // said again if it holds
  connections_[connection] = hello.pod_uid;
  highest_number_ = std::max(highest_number_, hello.highest_epoch.number);
  if (!first_hello_at_) first_hello_at_ = now;
  Send(worker, control::Welcome{options_.term, static_cast<int>(Heartbeat().count())});
  if (restarted) {
    OnRestartedAgent(now, worker);
  } else {
    Welcome(worker);
  }
  unsettled_ = true;
  return std::exchange(actions_, {});
}

// Its ranks went with the agent that started them: nobody will report their ends.
void Membership::OnRestartedAgent(Time now, Worker& worker) {
  const std::string& pod_uid = worker.hello.pod_uid;
  worker.leaving = false;
  safekeeping_.Forget(pod_uid, -1);
  worker.stopping.clear();
  worker.processes.clear();
  if (!IsMember(pod_uid)) return;
  for (const int rank : RanksOf(pod_uid)) {
    const control::Member& member = members_[static_cast<std::size_t>(rank)];
    exits_.try_emplace({pod_uid, member.slot});
    ended_.insert(IdOf(member));
    cooldown_.Ended(now, pod_uid, member.slot);
  }
  if (!Elastic()) {
    return Stop(now, "the agent of " + NameOf(pod_uid) + " was restarted", "AgentRestarted",
                &worker);
  }
  if (!released_at_) NoteLoss(now, worker, "AgentRestarted", now);
}

// An agent that redials may have missed what was sent into the old connection; it ignores what it
// knows already.
void Membership::Welcome(Worker& worker) {
  const std::string& pod_uid = worker.hello.pod_uid;
  const bool member = IsMember(pod_uid);
  if (phase_ == LauncherPhase::kRunning && member) {
    Send(worker, control::StartEpoch{epoch_, cohort_, members_});
    worker.told = epoch_;
    if (switching_) Send(worker, control::SwitchEpoch{epoch_, Leaving(pod_uid)});
    if (released_at_) Send(worker, control::Release{epoch_});
  } else if (phase_ == LauncherPhase::kStopping && member) {
    Send(worker, control::StopEpoch{epoch_, static_cast<int>(options_.stop_grace.count())});
  } else if (proposal_ && (member || proposal_->Contains(pod_uid))) {
    Send(worker, control::PrepareEpoch{proposal_->epoch()});
  }
  if (!member && !worker.stopping.empty()) {
    Send(worker, control::StopEpoch{epoch_, static_cast<int>(options_.stop_grace.count())});
  }
}

Actions Membership::OnMessage(Time now, ConnectionId connection, const control::Message& message) {
  const auto found = connections_.find(connection);
  if (found == connections_.end() || phase_ == LauncherPhase::kFinished) return {};
  Worker& worker = workers_.at(found->second);
  worker.last_heard = now;
  bool expected = true;
  std::visit(
      [&](const auto& typed) {
        if constexpr (requires { On(now, worker, typed); }) {
          On(now, worker, typed);
        } else {
          expected = false;
        }
      },
      message);
  if (!expected) {
    actions_.push_back(
        Drop{connection, "an agent sends no " + std::string(control::TypeName(message))});
    Hangup(now, worker);
  }
  if (!CanWait(message) || !expected) unsettled_ = true;
  return std::exchange(actions_, {});
}

// What it changes is judged with the next tick. Of the answers that every Pod or rank of a world
// gives, nothing follows before the last one.
bool Membership::CanWait(const control::Message& message) const {
  if (std::holds_alternative<control::EpochAccepted>(message)) {
    return !proposal_ || !proposal_->AllAccepted();
  }
  if (std::holds_alternative<control::RankAtBoundary>(message) ||
      std::holds_alternative<control::RankDone>(message)) {
    return !EveryoneAtBoundary();
  }
  return std::holds_alternative<control::RankPositions>(message) ||
         std::holds_alternative<control::RankBroken>(message) ||
         std::holds_alternative<control::RankProgress>(message) ||
         std::holds_alternative<control::Heartbeat>(message) ||
         std::holds_alternative<control::StoreSet>(message) ||
         std::holds_alternative<control::StoreGet>(message) ||
         std::holds_alternative<control::SlotOutput>(message);
}

Actions Membership::Settle(Time now) {
  if (unsettled_) Advance(now);
  return std::exchange(actions_, {});
}

void Membership::On(Time now, Worker& worker, const control::AgentReady& ready) {
  if (!worker.ready) worker.ready_since = now;
  worker.ready = ready;
  worker.filling.reset();
  worker.address = ready.address;
  worker.ssh_port = ready.ssh_port;
  if (!ready.faults.empty() && !fault_seen_) fault_seen_ = now;
}

void Membership::On(Time now, Worker& worker, const control::DataCacheProgress& progress) {
  if (progress.bytes_done < 0 || progress.bytes_done > progress.bytes_total) return;
  if (!worker.filling || worker.filling->bytes_done != progress.bytes_done) worker.filled_at = now;
  worker.filling = progress;
}

// What an agent repeats goes out with its answer to the welcome, so before any heartbeat.
void Membership::On(Time /*now*/, Worker& worker, const control::Heartbeat& /*heartbeat*/) {
  if (!worker.repeated) unsettled_ = true;
  worker.repeated = true;
}

void Membership::On(Time now, Worker& worker, const control::SlotAttached& attached) {
  if (phase_ != LauncherPhase::kStarting || attached.cohort != cohort_) return;
  attached_at_ = now;
  gate_.Attach({worker.hello.pod_uid, attached.slot}, attached.mpi_rank, attached.mpi_world_size);
  if (gate_.fault() && !mismatch_at_) mismatch_at_ = now;
}

void Membership::On(Time now, Worker& worker, const control::AgentLeaving& leaving) {
  worker.leaving = true;
  if (IsMember(worker.hello.pod_uid) && !released_at_ && !Elastic()) {
    Stop(now, NameOf(worker.hello.pod_uid) + " leaves: " + leaving.reason, "Left", &worker);
  }
}

void Membership::On(Time /*now*/, Worker& worker, const control::StoreSet& set) {
  if (phase_ != LauncherPhase::kRunning || !IsMember(worker.hello.pod_uid)) return;
  const auto answers = store_.Set(set);
  if (!answers.ok()) {
    LogWarn("Dropped a rendezvous value",
            {{"pod", worker.hello.pod}, {"reason", answers.error().message}});
    return;
  }
  Answer(*answers);
}

void Membership::On(Time /*now*/, Worker& worker, const control::StoreGet& get) {
  if (phase_ != LauncherPhase::kRunning || !IsMember(worker.hello.pod_uid)) return;
  const auto answers = store_.Get(worker.hello.pod_uid, get);
  if (!answers.ok()) {
    LogWarn("Dropped a rendezvous question",
            {{"pod", worker.hello.pod}, {"reason", answers.error().message}});
    return;
  }
  Answer(*answers);
}

void Membership::Answer(const std::vector<RendezvousStore::Answer>& answers) {
  for (const auto& answer : answers) Send(workers_.at(answer.pod_uid), answer.values);
}

Actions Membership::OnClosed(Time now, ConnectionId connection) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return {};
  Worker& worker = workers_.at(found->second);
  Hangup(now, worker);
  const bool asks = phase_ == LauncherPhase::kStarting || Elastic();
  if (asks && IsMember(worker.hello.pod_uid) && worker.ssh_port > 0) {
    actions_.push_back(Probe{worker.hello.pod_uid, worker.address, worker.ssh_port});
  }
  unsettled_ = true;
  return std::exchange(actions_, {});
}

Actions Membership::OnProbe(Time now, const std::string& pod_uid, bool refused) {
  const auto worker = workers_.find(pod_uid);
  if (worker == workers_.end() || !refused || worker->second.connection) return {};
  Bury(now, worker->second, "AgentLost", "its connection broke and its port refuses");
  unsettled_ = true;
  return std::exchange(actions_, {});
}

Actions Membership::OnMpirunExited(Time now, int64_t cohort, const MpirunExit& exit) {
  if (cohort != cohort_) return {};
  mpirun_running_ = false;
  mpirun_exit_ = exit;
  mpirun_exited_at_ = now;
  Advance(now);
  return std::exchange(actions_, {});
}

Actions Membership::OnTick(Time now) {
  if (phase_ == LauncherPhase::kFinished) return {};
  if (last_tick_ != Time{} && now - last_tick_ > options_.late_tick) {
    // We slept, not they: what they sent meanwhile is still unread.
    for (auto& [uid, worker] : workers_) {
      worker.last_heard = now;
      worker.disconnected_at = now;
    }
    prepared_at_ = now;
    stall_watch_.Restart(now);
    for (auto& [id, stalled] : stalled_) stalled.asked_at = now;
  }
  last_tick_ = now;
  SendHeartbeats();
  JudgeSilence(now);
  Advance(now);
  return std::exchange(actions_, {});
}

// Silence ends a connection; a member whose connection is gone for too long is lost.
void Membership::JudgeSilence(Time now) {
  for (auto& [uid, worker] : workers_) {
    if (worker.lost) continue;
    const bool silent = worker.connection && now - worker.last_heard > options_.lost_after;
    const bool gone = !worker.connection && now - worker.disconnected_at > options_.redial_within;
    if (IsMember(uid) && !worker.silent) {
      if (silent) {
        LoseWorker(now, worker, "Silence",
                   "nothing heard for " + std::to_string(options_.lost_after.count()) + " ms");
      } else if (gone) {
        LoseWorker(now, worker, "AgentLost", "its connection broke and it did not dial again");
      }
    }
    if (silent && worker.connection) {
      actions_.push_back(Drop{*worker.connection, "no heartbeat"});
      Hangup(now, worker);
    }
  }
}

// By silence, which is no evidence: with our own trainer it is fenced only by the world that
// starts without it.
void Membership::LoseWorker(Time now, Worker& worker, const std::string& cause,
                            const std::string& reason) {
  if (released_at_) return;  // everything is done: there is nothing to lose any more
  if (Elastic()) {
    worker.silent = true;
    return NoteLoss(now, worker, cause, worker.last_heard);
  }
  if (phase_ != LauncherPhase::kStarting && phase_ != LauncherPhase::kRunning) return;
  LogWarn("Lost a worker",
          {{"pod", worker.hello.pod}, {"node", worker.hello.node}, {"reason", reason}});
  worker.lost = true;
  Stop(now, NameOf(worker.hello.pod_uid) + " was lost: " + reason, cause.c_str(), &worker);
}

// By evidence: certain, and for good.
void Membership::Bury(Time now, Worker& worker, const std::string& cause,
                      const std::string& reason) {
  if (worker.dead || phase_ == LauncherPhase::kFinished) return;
  worker.dead = true;
  const bool member = IsMember(worker.hello.pod_uid) && !released_at_ && !worker.lost;
  if (member && Elastic()) NoteLoss(now, worker, cause, worker.last_heard);
  Fence(worker);
  if (!member || Elastic()) return;
  Stop(now, NameOf(worker.hello.pod_uid) + " was lost: " + reason, cause.c_str(), &worker);
}

// Never again: its place goes to another Pod.
void Membership::Fence(Worker& worker) {
  worker.lost = true;
  safekeeping_.Forget(worker.hello.pod_uid, -1);
  worker.stopping.clear();
  cooldown_.Forget(worker.hello.pod_uid);
  if (!worker.connection) return;
  actions_.push_back(Refuse{*worker.connection, "this Pod was declared lost"});
  Hangup(last_tick_, worker);
}

void Membership::Hangup(Time now, Worker& worker) {
  connections_.erase(*worker.connection);
  worker.connection.reset();
  worker.ready.reset();
  worker.disconnected_at = now;
}

// Of the agents, and ours to each of them.
std::chrono::milliseconds Membership::Heartbeat() const {
  const auto agents = static_cast<int64_t>(connections_.size());
  const std::chrono::milliseconds shared(agents * 1000 / kBeatsASecond);
  return std::clamp(shared, options_.heartbeat,
                    std::max(options_.heartbeat, options_.lost_after / kBeatsBeforeLoss));
}

// A part of the agents with every tick, each of them once a beat.
void Membership::SendHeartbeats() {
  const std::chrono::milliseconds beat = Heartbeat();
  const int64_t ticks = std::max<int64_t>(1, beat / options_.heartbeat);
  stall_watch_.set_fresh(std::max(kFreshBeats * options_.heartbeat, kFreshSeldomBeats * beat));
  ++tick_;
  SendToAll all{{}, control::Heartbeat{static_cast<int>(beat.count())}};
  for (const auto& [connection, pod_uid] : connections_) {
    if ((connection + tick_) % ticks == 0) all.connections.push_back(connection);
  }
  if (!all.connections.empty()) actions_.push_back(std::move(all));
}

void Membership::Advance(Time now) {
  unsettled_ = false;
  AskForMembers(now);
  const bool over = phase_ == LauncherPhase::kFinished || released_at_;
  if (crashes_.Reached() && !over) {
    return JudgeFailures(now);
  }
  switch (phase_) {
    case LauncherPhase::kWaitingForOrder:
    case LauncherPhase::kFinished:
      return;
    case LauncherPhase::kWaitingForAgents:
      if (ShouldAdopt()) return BeginAdopting(now);
      JudgeFaults(now);
      if (phase_ == LauncherPhase::kWaitingForAgents) TryStart(now);
      return;
    case LauncherPhase::kStarting:
      if (ShouldAdopt()) return Stop(now, "a world of an earlier launcher runs already");
      ReformIfNeeded(now);
      if (phase_ == LauncherPhase::kStarting) JudgeEarlyExits(now);
      if (phase_ == LauncherPhase::kStarting) TryOpenGate(now);
      if (phase_ == LauncherPhase::kStarting) JudgeMpirun(now);
      return;
    case LauncherPhase::kAdopting:
      return AdvanceAdopting(now);
    case LauncherPhase::kRunning:
    case LauncherPhase::kForming:
    case LauncherPhase::kPaused:
      if (released_at_) return FinishIfReleased(now);
      if (options_.managed) {
        AdvanceWorld(now);
        return AskForCheckpoint(now);
      }
      JudgeExits(now);
      if (phase_ == LauncherPhase::kRunning) ReformIfNeeded(now);
      return;
    case LauncherPhase::kStopping:
      return FinishStopping(now);
  }
}

Actions Membership::OnTerminate(Time now) {
  if (phase_ == LauncherPhase::kFinished) return {};
  if (released_at_) {  // nothing is left that a next launcher could do better
    Succeed(now);
    return std::exchange(actions_, {});
  }
  const bool ranks_wait = Elastic() || phase_ == LauncherPhase::kAdopting;
  if (!ranks_wait) {
    SendToPods(member_pods_,
               control::StopEpoch{epoch_, static_cast<int>(options_.stop_grace.count())});
  }
  if (mpirun_running_) actions_.push_back(StopMpirun{});
  phase_ = LauncherPhase::kFinished;
  return std::exchange(actions_, {});
}

Actions Membership::OnOwnFailure(Time now, const std::string& reason, const std::string& message) {
  if (phase_ != LauncherPhase::kFinished) Fail(now, reason, message, 1);
  return std::exchange(actions_, {});
}

void Membership::Send(const Worker& worker, const control::Message& message) {
  if (worker.connection) actions_.push_back(SendTo{*worker.connection, message});
}

void Membership::SendToPods(const std::set<std::string>& pod_uids,
                            const control::Message& message) {
  SendToAll all{{}, message};
  for (const std::string& pod_uid : pod_uids) {
    const Worker& worker = workers_.at(pod_uid);
    if (worker.connection) all.connections.push_back(*worker.connection);
  }
  if (!all.connections.empty()) actions_.push_back(std::move(all));
}

// The newest world to all of its Pods: those that have the one before are told the difference.
void Membership::SendWorld(const std::optional<control::ChangeEpoch>& difference) {
  std::set<std::string> behind;
  std::set<std::string> others;
  for (const std::string& pod_uid : member_pods_) {
    Worker& worker = workers_.at(pod_uid);
    (difference && worker.told == difference->base ? behind : others).insert(pod_uid);
    worker.told = epoch_;
  }
  if (!behind.empty()) SendToPods(behind, *difference);
  if (!others.empty()) {
    SendToPods(others, control::StartEpoch{epoch_, cohort_, members_});
  }
}

}  // namespace ringmaster::launcher
