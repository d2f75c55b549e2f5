#include "worker/launcher/membership.h"

#include <algorithm>

#include "common/base/log.h"
#include "common/control/secrets.h"

namespace ringmaster::launcher {

using control::LauncherPhase;

Membership::Membership(MembershipOptions options) : options_(std::move(options)) {
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
  order_ = order;
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
  if (hello.protocol != control::kProtocolVersion) {
    return refuse("it speaks protocol " + std::to_string(hello.protocol) + ", this launcher " +
                  std::to_string(control::kProtocolVersion) + ": use one image for both");
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
    return {SendTo{connection, control::Welcome{options_.term, 100}},
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
  worker.last_heard = now;
  worker.ready.reset();
  connections_[connection] = hello.pod_uid;
  if (restarted) worker.leaving = false;
  if (restarted && IsMember(hello.pod_uid)) {
    Send(worker, control::Welcome{options_.term, static_cast<int>(options_.heartbeat.count())});
    // Its ranks went with the agent that started them: nobody will report their ends.
    for (int slot = 0; slot < options_.slots; ++slot) exits_[{hello.pod_uid, slot}] = {};
    Stop(now, "the agent of " + NameOf(hello.pod_uid) + " was restarted");
  } else {
    Welcome(worker);
  }
  Advance(now);
  return std::exchange(actions_, {});
}

// An agent that redials may have missed what was sent into the old connection; it ignores what it
// knows already.
void Membership::Welcome(const Worker& worker) {
  Send(worker, control::Welcome{options_.term, static_cast<int>(options_.heartbeat.count())});
  if (!IsMember(worker.hello.pod_uid)) return;
  if (phase_ == LauncherPhase::kRunning) {
    Send(worker, control::StartEpoch{epoch_, cohort_, members_});
    if (released_at_) Send(worker, control::Release{epoch_});
  } else if (phase_ == LauncherPhase::kStopping) {
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
  }
  Advance(now);
  return std::exchange(actions_, {});
}

void Membership::On(Time now, Worker& worker, const control::AgentReady& ready) {
  if (!worker.ready) worker.ready_since = now;
  worker.ready = ready;
  if (!ready.faults.empty() && !fault_seen_) fault_seen_ = now;
}

void Membership::On(Time /*now*/, Worker& /*worker*/, const control::Heartbeat& /*heartbeat*/) {}

void Membership::On(Time now, Worker& worker, const control::SlotAttached& attached) {
  if (phase_ != LauncherPhase::kStarting || attached.cohort != cohort_) return;
  const Slot slot{worker.hello.pod_uid, attached.slot};
  const auto [it, fresh] =
      attached_.try_emplace(slot, Attached{attached.mpi_rank, attached.mpi_world_size});
  // An agent that redials says again what it said before.
  if (!fresh && it->second.mpi_rank != attached.mpi_rank && attach_fault_.empty()) {
    attach_fault_ = "two processes attached to " + SlotText(slot);
  }
  JudgeAttached(now);
}

void Membership::On(Time /*now*/, Worker& worker, const control::RankExited& exited) {
  if (exited.epoch != epoch_ || !IsMember(worker.hello.pod_uid)) return;
  if (phase_ != LauncherPhase::kRunning && phase_ != LauncherPhase::kStopping) return;
  const Slot slot{worker.hello.pod_uid, exited.exit.slot};
  const auto member = std::find_if(members_.begin(), members_.end(), [&](const auto& m) {
    return Slot{m.pod_uid, m.slot} == slot;
  });
  if (member == members_.end()) return;
  control::RankExit exit = exited.exit;
  exit.rank = member->rank;
  exit.pod_uid = member->pod_uid;
  exit.pod = member->pod;
  exit.node = member->node;
  exits_.try_emplace(slot, ReportedExit{std::move(exit), exits_.size()});
}

void Membership::On(Time /*now*/, Worker& worker, const control::RankProgress& progress) {
  if (progress.epoch == epoch_ && phase_ == LauncherPhase::kRunning &&
      IsMember(worker.hello.pod_uid)) {
    progress_ = progress.progress;
  }
}

void Membership::On(Time now, Worker& worker, const control::RankDone& done) {
  if (done.epoch != epoch_ || phase_ != LauncherPhase::kRunning || released_at_) return;
  if (done.rank < 0 || done.rank >= WorldSize() ||
      members_[static_cast<std::size_t>(done.rank)].pod_uid != worker.hello.pod_uid) {
    return;
  }
  done_.insert(done.rank);
  if (static_cast<int>(done_.size()) < WorldSize()) return;
  released_at_ = now;
  for (const std::string& pod_uid : member_pods_) {
    Send(workers_.at(pod_uid), control::Release{epoch_});
  }
}

void Membership::On(Time now, Worker& worker, const control::AgentLeaving& leaving) {
  worker.leaving = true;
  if (IsMember(worker.hello.pod_uid) && !released_at_) {
    Stop(now, NameOf(worker.hello.pod_uid) + " leaves: " + leaving.reason);
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
  connections_.erase(found);
  worker.connection.reset();
  worker.ready.reset();
  worker.disconnected_at = now;
  Advance(now);
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
  }
  last_tick_ = now;
  for (const auto& [connection, pod_uid] : connections_) {
    actions_.push_back(SendTo{connection, control::Heartbeat{}});
  }
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
    if (IsMember(uid) && silent) LoseWorker(worker, "no heartbeat for 2 s");
    if (IsMember(uid) && gone) LoseWorker(worker, "its connection broke and it did not dial again");
    if (silent && worker.connection) {
      connections_.erase(*worker.connection);
      actions_.push_back(Drop{*worker.connection, "no heartbeat"});
      worker.connection.reset();
      worker.ready.reset();
      worker.disconnected_at = now;
    }
  }
}

void Membership::LoseWorker(Worker& worker, const std::string& reason) {
  if (phase_ != LauncherPhase::kStarting && phase_ != LauncherPhase::kRunning) return;
  if (released_at_) return;  // everything is done: there is nothing to lose any more
  LogWarn("Lost a worker",
          {{"pod", worker.hello.pod}, {"node", worker.hello.node}, {"reason", reason}});
  worker.lost = true;
  Stop(last_tick_, NameOf(worker.hello.pod_uid) + " was lost: " + reason);
}

void Membership::Advance(Time now) {
  switch (phase_) {
    case LauncherPhase::kWaitingForOrder:
    case LauncherPhase::kFinished:
      return;
    case LauncherPhase::kWaitingForAgents:
      JudgeFaults(now);
      if (phase_ == LauncherPhase::kWaitingForAgents) TryStart(now);
      return;
    case LauncherPhase::kStarting:
      ReformIfNeeded(now);
      if (phase_ == LauncherPhase::kStarting) JudgeMpirun(now);
      return;
    case LauncherPhase::kRunning:
      if (released_at_) return FinishIfReleased(now);
      JudgeExits(now);
      if (phase_ == LauncherPhase::kRunning) ReformIfNeeded(now);
      return;
    case LauncherPhase::kStopping:
      return FinishStopping(now);
  }
}

Actions Membership::OnTerminate(Time /*now*/) {
  for (const std::string& pod_uid : member_pods_) {
    Send(workers_.at(pod_uid),
         control::StopEpoch{epoch_, static_cast<int>(options_.stop_grace.count())});
  }
  if (mpirun_running_) actions_.push_back(StopMpirun{});
  phase_ = LauncherPhase::kFinished;
  return std::exchange(actions_, {});
}

Actions Membership::OnOwnFailure(Time /*now*/, const std::string& reason,
                                 const std::string& message) {
  if (phase_ != LauncherPhase::kFinished) Fail(reason, message, 1);
  return std::exchange(actions_, {});
}

void Membership::Send(const Worker& worker, const control::Message& message) {
  if (worker.connection) actions_.push_back(SendTo{*worker.connection, message});
}

}  // namespace ringmaster::launcher
