#include "model.h"

#include <algorithm>

#include "common/control/world_difference.h"

namespace ringmaster::launcher::model {
namespace {

using Kind = Choice::Kind;

CoordinatorOptions OptionsOf(int64_t term, const Model::Job& job) {
  CoordinatorOptions options;
  options.term = term;
  options.job_uid = "job";
  options.agent_token = "token";
  options.lost_after = std::chrono::milliseconds(250);
  options.redial_within = std::chrono::milliseconds(150);
  options.adopt_within = std::chrono::milliseconds(500);
  options.adopt_rest_within = std::chrono::milliseconds(300);
  options.join_window = std::chrono::milliseconds(100);
  options.broken_settle = std::chrono::milliseconds(100);
  options.slots = job.slots;
  options.elastic = job.elastic;
  options.partial_after = job.elastic ? std::chrono::milliseconds(std::chrono::hours(1))
                                      : std::chrono::milliseconds(300);
  options.stop_within = std::chrono::milliseconds(500);
  options.stall_floor = std::chrono::milliseconds(job.elastic ? 20 : 0);
  options.stall_end_within = std::chrono::milliseconds(300);
  options.crash_limit = 0;  // no limit
  return options;
}

std::string TextOf(const control::Epoch& epoch) {
  return std::to_string(epoch.term) + "." + std::to_string(epoch.number);
}

int WorkerOf(const std::string& pod_uid) { return std::stoi(pod_uid.substr(1)); }

}  // namespace

std::string ToString(const Choice& choice) {
  static constexpr const char* kNames[] = {
      "to-launcher",  "to-agent",      "dial",   "tick",     "step",   "checkpoint", "keep",
      "kill-rank",    "hang",          "freeze", "kill-pod", "break",  "cut",        "mend",
      "new-launcher", "kill-launcher", "tell",   "grow",     "shrink", "report"};
  return std::string(kNames[static_cast<int>(choice.kind)]) + " " + std::to_string(choice.who) +
         (choice.whom == 0 ? "" : "/" + std::to_string(choice.whom));
}

Model::Model(int workers, int wanted, int min_replicas, Job job)
    : workers_(workers),
      min_replicas_(min_replicas),
      job_(job),
      agents_(static_cast<std::size_t>(workers)),
      channels_(static_cast<std::size_t>(workers)),
      launchers_(kLaunchers) {
  for (Agent& agent : agents_) agent.ranks.resize(static_cast<std::size_t>(job_.slots));
  for (int worker = 0; worker < wanted; ++worker) ordered_.insert(worker);
  StartLauncher(0);
  for (int i = 0; i < 20 && steps == 0; ++i) {
    for (int worker = 0; worker < workers_; ++worker) {
      if (At(worker).launcher < 0) Dial(worker, 0);
    }
    Tick();
    for (const control::Epoch& epoch : AbleToStep()) Step(epoch);
  }
  Tick();
}

void Model::StartLauncher(int launcher) {
  auto& slot = launchers_[static_cast<std::size_t>(launcher)];
  slot.emplace(OptionsOf(launcher + 1, job_));
  Apply(launcher, slot->membership.OnMpiVersion(now_, "4.1.4"));
  SendOrders();
}

control::Order Model::OrderNow() const {
  control::Order order;
  order.stamp = {1, generation_};
  for (const int worker : ordered_) {
    order.workers.push_back({Uid(worker), "pod-" + Uid(worker), "node", worker});
  }
  order.replicas = std::max(1, static_cast<int>(ordered_.size()));
  order.min_replicas = std::min(min_replicas_, order.replicas);
  for (const int worker : told_dead_) order.dead.push_back(Uid(worker));
  order.checkpoint = wants_checkpoint_;
  return order;
}

// Sends orders only to the newest launcher, whose Pod the operator watches.
void Model::SendOrders() {
  ++generation_;
  for (int launcher = kLaunchers - 1; launcher >= 0; --launcher) {
    auto& one = launchers_[static_cast<std::size_t>(launcher)];
    if (!one) continue;
    if (one->alive) {
      auto actions = one->membership.OnOrder(now_, OrderNow());
      if (actions.ok()) Apply(launcher, std::move(*actions));
    }
    return;
  }
}

void Model::Apply(int launcher, Actions actions) {
  Launcher& self = *launchers_[static_cast<std::size_t>(launcher)];
  for (const Action& action : actions) {
    if (const auto* all = std::get_if<SendToAll>(&action)) {
      Note(launcher, all->message);
      for (const ConnectionId connection : all->connections) {
        const auto found = connections_.find(connection);
        if (found != connections_.end()) {
          ChannelOf(found->second).to_agent.push_back(all->message);
        }
      }
    } else if (const auto* send = std::get_if<SendTo>(&action)) {
      Note(launcher, send->message);
      const auto found = connections_.find(send->connection);
      if (found == connections_.end()) continue;
      ChannelOf(found->second).to_agent.push_back(send->message);
    } else if (const auto* refuse = std::get_if<Refuse>(&action)) {
      const auto found = connections_.find(refuse->connection);
      if (found == connections_.end()) continue;
      ChannelOf(found->second).to_agent.push_back(control::Refused{refuse->reason});
    } else if (const auto* drop = std::get_if<Drop>(&action)) {
      const auto found = connections_.find(drop->connection);
      if (found != connections_.end()) Disconnect(found->second, false);
    } else if (const auto* start = std::get_if<StartMpirun>(&action)) {
      self.mpirun = start->cohort;
      self.mpirun_stopping = false;
      int rank = 0;
      for (const Host& host : start->hosts) {
        const int worker = WorkerOf(host.pod_uid);
        for (int slot = 0; slot < host.slots; ++slot) {
          auto& attached = At(worker, slot).attached;
          attached = control::SlotAttached{start->cohort, slot, rank++, start->world_size};
          if (At(worker).welcomed) Say(worker, *attached);
        }
      }
    } else if (std::holds_alternative<StopMpirun>(action)) {
      self.mpirun_stopping = true;
    } else if (const auto* probe = std::get_if<Probe>(&action)) {
      probes_.push_back({launcher, probe->pod_uid});
    } else if (const auto* finish = std::get_if<Finish>(&action)) {
      broken = "a verdict: " + finish->verdict.message;
    }
  }
  if (!settles_late) Settle(launcher);
}

// Records a launcher's message, and checks that the launcher may send it.
void Model::Note(int launcher, const control::Message& message) {
  Launcher& self = *launchers_[static_cast<std::size_t>(launcher)];
  if (const auto* start = std::get_if<control::StartEpoch>(&message)) {
    self.started = std::max(self.started, start->epoch);
  } else if (const auto* change = std::get_if<control::ChangeEpoch>(&message)) {
    self.started = std::max(self.started, change->epoch);
  } else if (const auto* grant = std::get_if<control::CheckpointGrant>(&message)) {
    if (grant->epoch < self.started) broken = "a checkpoint is granted to an earlier world";
  }
}

void Model::Settle(int launcher) {
  auto& one = launchers_[static_cast<std::size_t>(launcher)];
  if (!one || !one->alive) return;
  Actions following = one->membership.Settle(now_);
  if (!following.empty()) Apply(launcher, std::move(following));
}

void Model::Dial(int worker, int launcher) {
  Agent& agent = At(worker);
  agent.launcher = launcher;
  agent.welcomed = false;
  agent.connection = next_connection_++;
  connections_[agent.connection] = worker;
  ChannelOf(worker) = {};
  control::AgentHello hello;
  hello.token = "token";
  hello.job_uid = "job";
  hello.pod_uid = Uid(worker);
  hello.pod = "pod-" + Uid(worker);
  hello.node = "node";
  hello.worker_index = worker;
  hello.slots = job_.slots;
  hello.nonce = "n";
  hello.highest_epoch = agent.highest;
  ChannelOf(worker).to_launcher.push_back(hello);
}

void Model::Disconnect(int worker, bool tell_launcher) {
  Agent& agent = At(worker);
  if (agent.launcher < 0) return;
  const int launcher = agent.launcher;
  const ConnectionId connection = agent.connection;
  connections_.erase(connection);
  agent.launcher = -1;
  agent.welcomed = false;
  ChannelOf(worker) = {};
  auto& one = launchers_[static_cast<std::size_t>(launcher)];
  if (tell_launcher && one && one->alive && !CutFrom(worker, launcher)) {
    Apply(launcher, one->membership.OnClosed(now_, connection));
  }
}

void Model::Say(int worker, control::Message message) {
  if (At(worker).launcher >= 0) ChannelOf(worker).to_launcher.push_back(std::move(message));
}

void Model::DeliverToLauncher(int worker) {
  auto& queue = ChannelOf(worker).to_launcher;
  const int launcher = At(worker).launcher;
  if (queue.empty() || launcher < 0) return;
  const control::Message message = queue.front();
  queue.pop_front();
  auto& one = launchers_[static_cast<std::size_t>(launcher)];
  if (!one || !one->alive) return;
  const ConnectionId connection = At(worker).connection;
  if (const auto* hello = std::get_if<control::AgentHello>(&message)) {
    Apply(launcher, one->membership.OnHello(now_, connection, *hello));
  } else {
    Apply(launcher, one->membership.OnMessage(now_, connection, message));
  }
}

void Model::DeliverToAgent(int worker) {
  auto& queue = ChannelOf(worker).to_agent;
  if (queue.empty()) return;
  const control::Message message = queue.front();
  queue.pop_front();
  Hear(worker, message);
}

void Model::Welcomed(int worker, int64_t term) {
  Agent& agent = At(worker);
  if (term < agent.highest.term || term < agent.term) return Disconnect(worker, true);
  agent.term = term;
  agent.welcomed = true;
  Say(worker, control::AgentReady{"10.0.0." + std::to_string(worker), 22, {}, {}});
  for (int slot = 0; slot < job_.slots; ++slot) {
    if (At(worker, slot).attached) Say(worker, *At(worker, slot).attached);
    if (job_.elastic) Say(worker, control::RankReady{slot, StartOf(worker, slot)});
  }
  if (job_.elastic && !agent.world.members.empty()) Say(worker, ReportOf(worker));
  if (agent.prepared.number != 0 && agent.prepared.term == term) {
    Say(worker, control::EpochAccepted{agent.prepared});
  }
  for (int slot = 0; slot < job_.slots; ++slot) {
    const Rank& rank = At(worker, slot);
    if (rank.at_boundary) {
      const int number = MemberOf(worker, slot)->rank;
      Say(worker, control::RankAtBoundary{rank.given, number, rank.state.step});
    }
    if (rank.exit_report) Say(worker, *rank.exit_report);
  }
}

std::string Model::StartOf(int worker, int slot) const {
  return "r" + std::to_string(At(worker, slot).starts) +
         (slot == 0 ? "" : "." + std::to_string(slot));
}

// Returns the rank in this slot as a member of its world; null: it is not in a world.
const control::Member* Model::MemberOf(int worker, int slot) const {
  for (const control::Member& member : At(worker, slot).members) {
    if (member.pod_uid == Uid(worker) && member.slot == slot) return &member;
  }
  return nullptr;
}

control::WorldReport Model::ReportOf(int worker) const {
  const Agent& agent = At(worker);
  control::WorldReport report{agent.world.epoch, {}, {}};
  for (int slot = 0; slot < job_.slots; ++slot) {
    if (At(worker, slot).given == agent.world.epoch) {
      report.running.push_back(StartOf(worker, slot));
    }
  }
  return report;
}

void Model::Hear(int worker, const control::Message& message) {
  Agent& agent = At(worker);
  if (const auto* welcome = std::get_if<control::Welcome>(&message)) {
    Welcomed(worker, welcome->term);
  } else if (std::holds_alternative<control::Refused>(message)) {
    EndPod(worker);
  } else if (const auto* prepare = std::get_if<control::PrepareEpoch>(&message)) {
    if (prepare->epoch < agent.highest) return;
    agent.highest = agent.prepared = prepare->epoch;
    for (Rank& rank : agent.ranks) {
      if (rank.given < prepare->epoch) rank.left = true;
    }
    Say(worker, control::EpochAccepted{prepare->epoch});
  } else if (const auto* start = std::get_if<control::StartEpoch>(&message)) {
    if (start->epoch < agent.highest) return;
    agent.highest = start->epoch;
    for (const control::Member& member : start->members) {
      if (member.pod_uid != Uid(worker)) continue;
      agent.world = *start;
      Rank& rank = At(worker, member.slot);
      if (start->epoch == rank.given) continue;
      if (job_.elastic && member.start != StartOf(worker, member.slot)) continue;
      if (!job_.elastic && (!rank.attached || rank.attached->cohort != start->cohort)) continue;
      rank.given = start->epoch;
      rank.members = start->members;
      rank.left = rank.adopted = rank.switching = rank.at_boundary = false;
    }
  } else if (const auto* change = std::get_if<control::ChangeEpoch>(&message)) {
    if (change->epoch < agent.highest) return;
    if (change->base != agent.world.epoch) return Disconnect(worker, true);
    const auto members = control::MembersAfter(agent.world.members, *change);
    if (!members) {
      broken = "a world that does not fit the one it builds on";
      return;
    }
    Hear(worker, control::StartEpoch{change->epoch, change->cohort, *members});
  } else if (const auto* tell = std::get_if<control::TellWorld>(&message)) {
    if (tell->epoch != agent.world.epoch) return;
    control::WorldReport report = ReportOf(worker);
    report.members = agent.world.members;
    Say(worker, report);
  } else if (const auto* switching = std::get_if<control::SwitchEpoch>(&message)) {
    for (Rank& rank : agent.ranks) rank.switching |= switching->epoch == rank.given;
  } else if (const auto* stop = std::get_if<control::StopEpoch>(&message)) {
    for (int slot = 0; slot < job_.slots; ++slot) {
      const Rank& rank = At(worker, slot);
      const bool runs = rank.given.number != 0 && rank.given <= stop->epoch;
      if (runs && !rank.frozen) EndRank(worker, slot, 15, true);
    }
  } else if (const auto* end = std::get_if<control::EndStalledRank>(&message)) {
    const bool runs = end->start == StartOf(worker, end->slot);
    if (runs && !At(worker, end->slot).frozen) EndRank(worker, end->slot, 9, true);
  } else if (const auto* grant = std::get_if<control::CheckpointGrant>(&message)) {
    for (int slot = 0; slot < job_.slots; ++slot) {
      const control::Member* member = MemberOf(worker, slot);
      const bool written = member != nullptr && member->rank == grant->rank &&
                           At(worker, slot).given == grant->epoch;
      if (written) Say(worker, control::CheckpointDone{grant->epoch, grant->rank, grant->step, 1});
    }
  } else if (std::holds_alternative<control::TakeCheckpoint>(message)) {
    for (int slot = 0; slot < job_.slots; ++slot) {
      const control::Member* member = MemberOf(worker, slot);
      if (member != nullptr && member->rank == 0) WriteCheckpoint(worker, slot);
    }
  }
}

void Model::WriteCheckpoint(int worker, int slot) {
  const Rank& rank = At(worker, slot);
  if (rank.given.number == 0 || rank.hung || rank.state.step == 0) return;
  Say(worker, control::CheckpointWritten{rank.given, MemberOf(worker, slot)->rank, rank.state.step,
                                         0, 1, ""});
}

// Ends a rank. With `again`, the agent of an elastic job starts another, which is ready at once.
void Model::EndRank(int worker, int slot, int signal, bool again) {
  Rank& rank = At(worker, slot);
  control::RankExited exited;
  exited.epoch = rank.given;
  exited.exit.slot = slot;
  if (job_.elastic) exited.exit.start = StartOf(worker, slot);
  exited.exit.exit_code = -1;
  exited.exit.signal = signal;
  Rank next;
  next.starts = rank.starts + (again ? 1 : 0);
  next.exit_report = rank.exit_report;
  next.attached = rank.attached;
  rank = next;
  if (!again) return;
  rank.exit_report = exited;
  if (!At(worker).welcomed) return;
  Say(worker, exited);
  if (job_.elastic) Say(worker, control::RankReady{slot, StartOf(worker, slot)});
}

// Ends the ranks at once. A program ends with mpirun, even if an agent is not connected: mpirun's
// daemons end the ranks, within 4 s by SIGKILL, even if mpirun was killed. If the connection of a
// member is broken, the world without this member starts at least 30 s (partial_after) later, which
// is three ticks in this model. Therefore the model needs no delay.
void Model::EndProgram(int64_t cohort) {
  for (int worker = 0; worker < workers_; ++worker) {
    for (int slot = 0; slot < job_.slots && At(worker).alive; ++slot) {
      Rank& rank = At(worker, slot);
      if (!rank.attached || rank.attached->cohort != cohort) continue;
      rank.attached.reset();
      if (rank.given.number != 0) EndRank(worker, slot, 15, true);
    }
  }
}

void Model::EndPod(int worker) {
  for (int slot = 0; slot < job_.slots; ++slot) EndRank(worker, slot, 9, false);
  At(worker).alive = false;
  Disconnect(worker, true);
}

// Returns whether two ranks can reach each other. They cannot if a cut separates the agent of only
// one of them from a launcher.
bool Model::PeersReach(int a, int b) const {
  for (int launcher = 0; launcher < kLaunchers; ++launcher) {
    if (CutFrom(a, launcher) != CutFrom(b, launcher)) return false;
  }
  return true;
}

// Returns whether a launcher has fenced the worker: the job does not need its state any more.
bool Model::Fenced(int worker) const {
  for (const auto& one : launchers_) {
    if (!one) continue;
    for (const control::WorkerReport& report : one->membership.Status(now_).workers) {
      if (report.pod_uid == Uid(worker) && report.fenced) return true;
    }
  }
  return false;
}

bool Model::Able(const control::Epoch& epoch) const {
  for (const Agent& agent : agents_) {
    for (const Rank& rank : agent.ranks) {
      if (!agent.alive || rank.given != epoch || epoch.number == 0) continue;
      return std::all_of(rank.members.begin(), rank.members.end(), [&](const auto& member) {
        const int worker = WorkerOf(member.pod_uid);
        const Rank& peer = At(worker, member.slot);
        return At(worker).alive && peer.given == epoch && !peer.left && !peer.at_boundary &&
               !peer.hung && (!job_.elastic || StartOf(worker, member.slot) == member.start);
      });
    }
  }
  return false;
}

std::vector<control::Epoch> Model::AbleToStep() const {
  std::set<control::Epoch> epochs;
  for (const Agent& agent : agents_) {
    for (const Rank& rank : agent.ranks) {
      if (agent.alive && rank.given.number != 0 && Able(rank.given)) epochs.insert(rank.given);
    }
  }
  return {epochs.begin(), epochs.end()};
}

// Returns whether the rank has a world that cannot continue.
bool Model::Waits(const Rank& rank) const { return !rank.left && !rank.hung && !Able(rank.given); }

std::vector<const Rank*> Model::PeersOf(const Rank& rank) const {
  std::vector<const Rank*> peers;
  for (const control::Member& member : rank.members) {
    const Rank& peer = At(WorkerOf(member.pod_uid), member.slot);
    if (peer.given == rank.given) peers.push_back(&peer);
  }
  return peers;
}

// Returns the position that the rank reports. If another rank hangs, this rank waits for it. If the
// world broke for another reason, this rank has left the world and waits for the next one.
control::RankPosition Model::PositionOf(int worker, int slot) const {
  const Rank& rank = At(worker, slot);
  control::RankPosition position{.rank = MemberOf(worker, slot)->rank,
                                 .slot = slot,
                                 .entered = rank.adopted,
                                 .step = rank.state.step};
  const std::vector<const Rank*> peers = PeersOf(rank);
  const bool somebody_hangs =
      std::any_of(peers.begin(), peers.end(), [](const Rank* peer) { return peer->hung; });
  if (rank.hung) {
    position.phase = control::RankPhase::kCompute;
  } else if (rank.left || rank.at_boundary) {
    position.phase = control::RankPhase::kWait;
  } else if (somebody_hangs) {
    position.entered = true;
    position.phase = rank.adopted ? control::RankPhase::kReduce : control::RankPhase::kConnect;
  } else if (Able(rank.given)) {
    position.phase = control::RankPhase::kCompute;
  }
  return position;
}

void Model::Step(const control::Epoch& epoch) {
  std::vector<std::pair<int, int>> members;
  for (int worker = 0; worker < workers_; ++worker) {
    for (int slot = 0; slot < job_.slots; ++slot) {
      if (At(worker).alive && At(worker, slot).given == epoch) members.push_back({worker, slot});
    }
  }
  for (const auto& [a, slot_a] : members) {
    for (const auto& [b, slot_b] : members) {
      if (!PeersReach(a, b)) return;
    }
  }
  if (epoch < last_stepped_) {
    broken = "a step in " + TextOf(epoch) + " after one in " + TextOf(last_stepped_);
  }
  last_stepped_ = epoch;
  ++steps;
  if (!job_.elastic) return;  // the state of such a program is not modelled
  State highest;
  for (const auto& [worker, slot] : members) highest = std::max(highest, At(worker, slot).state);
  for (int worker = 0; worker < workers_ && highest < committed_; ++worker) {
    for (const Rank& rank : At(worker).ranks) {
      if (At(worker).alive && rank.state == committed_ && !Fenced(worker)) {
        broken = "epoch " + TextOf(epoch) + " goes on from step " + std::to_string(highest.step) +
                 ", worker " + std::to_string(worker) + " has step " +
                 std::to_string(committed_.step);
      }
    }
  }
  const State next{epoch, highest.step + 1};
  committed_ = next;
  const bool boundary = std::any_of(members.begin(), members.end(), [&](const auto& member) {
    return At(member.first, member.second).switching;
  });
  for (const auto& [worker, slot] : members) {
    Rank& rank = At(worker, slot);
    rank.state = next;
    rank.adopted = true;
    const int number = MemberOf(worker, slot)->rank;
    if (number == 0) Say(worker, control::RankProgress{epoch, {next.step, 0, 1, 1, -1}});
    if (boundary) Say(worker, control::RankAtBoundary{epoch, number, next.step});
    rank.at_boundary = rank.at_boundary || boundary;
  }
}

void Model::Tick() {
  for (int round = 0; round < 8; ++round) {
    for (int worker = 0; worker < workers_; ++worker) {
      if (At(worker).launcher < 0 || CutFrom(worker, At(worker).launcher)) continue;
      for (int i = 0; i < 50 && !ChannelOf(worker).to_launcher.empty(); ++i) {
        DeliverToLauncher(worker);
      }
      for (int i = 0; i < 50 && !ChannelOf(worker).to_agent.empty(); ++i) DeliverToAgent(worker);
    }
    for (int launcher = 0; launcher < kLaunchers; ++launcher) Settle(launcher);
  }
  while (!probes_.empty()) {
    const PendingProbe probe = probes_.front();
    probes_.pop_front();
    auto& one = launchers_[static_cast<std::size_t>(probe.launcher)];
    const int worker = WorkerOf(probe.pod_uid);
    const bool refused = !At(worker).alive && !CutFrom(worker, probe.launcher);
    if (one && one->alive) {
      Apply(probe.launcher, one->membership.OnProbe(now_, probe.pod_uid, refused));
    }
  }
  now_ += std::chrono::milliseconds(100);
  for (int launcher = 0; launcher < kLaunchers; ++launcher) {
    auto& one = launchers_[static_cast<std::size_t>(launcher)];
    if (!one || !one->alive) continue;
    for (int worker = 0; worker < workers_; ++worker) {
      Agent& agent = At(worker);
      if (agent.launcher != launcher || !agent.welcomed || CutFrom(worker, launcher)) continue;
      Apply(launcher, one->membership.OnMessage(now_, agent.connection, control::Heartbeat{}));
      for (int slot = 0; slot < job_.slots && job_.elastic; ++slot) {
        if (MemberOf(worker, slot) == nullptr) continue;
        const control::RankPositions positions{At(worker, slot).given, {PositionOf(worker, slot)}};
        Apply(launcher, one->membership.OnMessage(now_, agent.connection, positions));
      }
    }
    if (one->mpirun_stopping && one->mpirun != 0) {
      const int64_t cohort = std::exchange(one->mpirun, 0);
      one->mpirun_stopping = false;
      if (!job_.elastic) EndProgram(cohort);
      Apply(launcher, one->membership.OnMpirunExited(now_, cohort, {143, 0, "", {}}));
    }
    Apply(launcher, one->membership.OnTick(now_));
  }
  for (int worker = 0; worker < workers_; ++worker) {
    // The agent also notices that its connection is cut.
    const Agent& agent = At(worker);
    if (agent.launcher >= 0 && CutFrom(worker, agent.launcher)) Disconnect(worker, false);
  }
}

void Model::Look() {
  const std::vector<control::Epoch> able = AbleToStep();
  if (able.size() > 1) {
    broken = "both " + TextOf(able[0]) + " and " + TextOf(able[1]) + " can commit steps";
  }
  for (const auto& one : launchers_) {
    if (!one || !one->alive) continue;
    const auto checkpoint = one->membership.Status(now_).checkpoint;
    if (checkpoint && checkpoint->step > steps) broken = "a checkpoint of a step nobody has made";
  }
}

// Returns whether the newest launcher knows its world. If not, the operator removes no workers.
bool Model::KnowsItsWorld() const {
  const auto& newest = launchers_[1] ? launchers_[1] : launchers_[0];
  if (!newest->alive) return false;
  const control::LauncherPhase phase = newest->membership.phase();
  return phase == control::LauncherPhase::kRunning || phase == control::LauncherPhase::kForming ||
         phase == control::LauncherPhase::kPaused;
}

std::vector<Choice> Model::Choices() const {
  std::vector<Choice> choices = {{Kind::kTick}};
  if (!AbleToStep().empty()) choices.push_back({Kind::kStep});
  for (int worker = 0; worker < workers_; ++worker) {
    const Agent& agent = At(worker);
    if (!agent.alive) continue;
    const Channel& channel = channels_[static_cast<std::size_t>(worker)];
    if (agent.launcher >= 0 && !CutFrom(worker, agent.launcher)) {
      if (!channel.to_launcher.empty()) choices.push_back({Kind::kToLauncher, worker});
      if (!channel.to_agent.empty()) choices.push_back({Kind::kToAgent, worker});
    }
    for (int launcher = 0; launcher < kLaunchers && agent.launcher < 0; ++launcher) {
      const auto& one = launchers_[static_cast<std::size_t>(launcher)];
      if (one && one->alive && !CutFrom(worker, launcher)) {
        choices.push_back({Kind::kDial, worker, launcher});
      }
    }
    for (int slot = 0; slot < job_.slots && job_.elastic; ++slot) {
      const Rank& rank = At(worker, slot);
      if (Waits(rank)) choices.push_back({Kind::kReport, worker, slot});
      if (rank.state.step > 0 && rank.given.number != 0 && !rank.hung) {
        choices.push_back({Kind::kCheckpoint, worker, slot});
      }
    }
  }
  if (job_.elastic) choices.push_back({Kind::kKeep});
  for (int worker = 0; worker < workers_; ++worker) {
    if (At(worker).alive || told_dead_.contains(worker)) continue;
    choices.push_back({Kind::kTell});
    break;
  }
  if (!cuts_.empty()) choices.push_back({Kind::kMend});
  if (faults_left == 0) return choices;
  for (int worker = 0; worker < workers_; ++worker) {
    const Agent& agent = At(worker);
    if (!agent.alive) continue;
    for (int slot = 0; slot < job_.slots && job_.elastic; ++slot) {
      choices.push_back({Kind::kKillRank, worker, slot});
      const Rank& rank = At(worker, slot);
      if (rank.hung || rank.left || rank.at_boundary) continue;
      choices.push_back({Kind::kHang, worker, slot});
      choices.push_back({Kind::kFreeze, worker, slot});
    }
    choices.push_back({Kind::kKillPod, worker});
    if (agent.launcher >= 0) choices.push_back({Kind::kBreak, worker});
    for (int launcher = 0; launcher < kLaunchers && job_.elastic; ++launcher) {
      if (launchers_[static_cast<std::size_t>(launcher)] && !CutFrom(worker, launcher)) {
        choices.push_back({Kind::kCut, worker, launcher});
      }
    }
    if (ordered_.contains(worker) && ordered_.size() > 1 && KnowsItsWorld()) {
      choices.push_back({Kind::kShrink, worker});
    }
  }
  if (ordered_.size() < agents_.size()) choices.push_back({Kind::kGrow});
  if (!launchers_[1] && job_.elastic) choices.push_back({Kind::kNewLauncher});
  if (launchers_[0] && launchers_[0]->alive && launchers_[1]) {
    choices.push_back({Kind::kKillLauncher});
  }
  return choices;
}

void Model::Do(const Choice& choice) {
  const int who = choice.who;
  if (choice.kind >= Kind::kKillRank && choice.kind != Kind::kMend && choice.kind != Kind::kTell &&
      choice.kind != Kind::kReport) {
    --faults_left;
  }
  switch (choice.kind) {
    case Kind::kToLauncher:
      DeliverToLauncher(who);
      break;
    case Kind::kToAgent:
      DeliverToAgent(who);
      break;
    case Kind::kDial:
      Dial(who, choice.whom);
      break;
    case Kind::kTick:
      Tick();
      break;
    case Kind::kStep:
      for (const control::Epoch& epoch : AbleToStep()) Step(epoch);
      break;
    case Kind::kCheckpoint:
      WriteCheckpoint(who, choice.whom);
      break;
    case Kind::kKeep:
      wants_checkpoint_ = !wants_checkpoint_;
      SendOrders();
      break;
    case Kind::kKillRank:
      EndRank(who, choice.whom, 9, true);
      break;
    case Kind::kHang:
    case Kind::kFreeze:
      At(who, choice.whom).hung = true;
      At(who, choice.whom).frozen = choice.kind == Kind::kFreeze;
      break;
    case Kind::kKillPod:
      EndPod(who);
      break;
    case Kind::kBreak:
      Disconnect(who, true);
      break;
    case Kind::kCut:
      cuts_.insert({who, choice.whom});
      break;
    case Kind::kMend:
      cuts_.clear();
      break;
    case Kind::kNewLauncher:
      // The order names every Pod that may be in the world, including Pods that must leave.
      for (int worker = 0; worker < workers_; ++worker) {
        for (const Rank& rank : At(worker).ranks) {
          if (At(worker).alive && rank.given.number != 0) ordered_.insert(worker);
        }
      }
      StartLauncher(1);
      break;
    case Kind::kKillLauncher:
      launchers_[0]->alive = false;
      for (int worker = 0; worker < workers_; ++worker) {
        if (At(worker).launcher == 0) Disconnect(worker, false);
      }
      break;
    case Kind::kTell:
      for (int worker = 0; worker < workers_; ++worker) {
        if (At(worker).alive) continue;
        told_dead_.insert(worker);
        ordered_.erase(worker);
      }
      SendOrders();
      break;
    case Kind::kGrow:
      for (int worker = 0; worker < workers_; ++worker) {
        if (ordered_.insert(worker).second) break;
      }
      SendOrders();
      break;
    case Kind::kShrink:
      ordered_.erase(who);
      SendOrders();
      break;
    case Kind::kReport:
      Say(who, control::RankBroken{At(who, choice.whom).given, MemberOf(who, choice.whom)->rank, -1,
                                   "reset"});
      break;
  }
  Look();
}

// Returns whether no rank can notice that this rank hangs: it is alone, or all its peers hang.
bool Model::NobodyWaitsFor(const Rank& rank) const {
  const std::vector<const Rank*> peers = PeersOf(rank);
  const bool all_hang =
      peers.size() == rank.members.size() &&
      std::all_of(peers.begin(), peers.end(), [](const Rank* peer) { return peer->hung; });
  return all_hang || rank.members.size() < 2;
}

bool Model::Recovers() {
  faults_left = 0;
  cuts_.clear();
  const int newest = launchers_[1] ? 1 : 0;
  if (newest == 1 && launchers_[0]->alive) Do({Kind::kKillLauncher});
  const int64_t before = steps;
  for (int i = 0; i < 150 && broken.empty(); ++i) {
    bool anybody = false;
    for (int worker = 0; worker < workers_; ++worker) {
      if (At(worker).alive && ordered_.contains(worker)) anybody = true;
      if (At(worker).alive && At(worker).launcher < 0) Dial(worker, newest);
      for (int slot = 0; slot < job_.slots && At(worker).alive; ++slot) {
        Rank& rank = At(worker, slot);
        if (Waits(rank) && job_.elastic && i % 10 == 0) Do({Kind::kReport, worker, slot});
        if (rank.hung && NobodyWaitsFor(rank)) rank.hung = rank.frozen = false;
      }
    }
    if (i % 10 == 0) Do({Kind::kTell});
    if (!anybody) {
      const bool grown = ordered_.size() < agents_.size() &&
                         std::any_of(agents_.begin(), agents_.end(),
                                     [](const Agent& agent) { return agent.alive; });
      if (!grown) return true;  // no agents are left
      for (int worker = 0; worker < workers_; ++worker) {
        if (At(worker).alive) ordered_.insert(worker);
      }
      SendOrders();
    }
    Tick();
    for (const control::Epoch& epoch : AbleToStep()) Step(epoch);
    Look();
    if (steps >= before + 3) return true;
  }
  return false;
}

std::string Model::Digest() const {
  std::string text;
  for (const Agent& agent : agents_) {
    text += agent.alive ? "+" : "-";
    text += TextOf(agent.highest) + std::to_string(agent.launcher) + (agent.welcomed ? "w" : "");
    for (const Rank& rank : agent.ranks) {
      text += " " + TextOf(rank.given) + " " + std::to_string(rank.starts) +
              (rank.left ? "l" : "") + (rank.switching ? "s" : "") + (rank.at_boundary ? "b" : "") +
              (rank.hung ? "h" : "") + (rank.frozen ? "f" : "") + TextOf(rank.state.version) +
              std::to_string(rank.state.step - committed_.step);
    }
    text += ";";
  }
  for (const Channel& channel : channels_) {
    for (const auto* queue : {&channel.to_launcher, &channel.to_agent}) {
      for (const control::Message& message : *queue) text += control::TypeName(message);
      text += "|";
    }
  }
  for (const auto& one : launchers_) {
    if (!one) continue;
    text += one->alive ? "L" : "x";
    control::LauncherStatus status = one->membership.Status(now_);
    status.progress.reset();
    status.last_order = {};
    if (one->alive) text += control::EncodeLauncherStatus(status);
  }
  for (const auto& [worker, launcher] : cuts_) {
    text += std::to_string(worker) + "/" + std::to_string(launcher) + ",";
  }
  return text + std::to_string(faults_left);
}

std::string Model::Describe() const {
  std::string text;
  for (int worker = 0; worker < workers_; ++worker) {
    const Agent& agent = At(worker);
    text += "  " + Uid(worker) + (agent.alive ? "" : " dead") + " highest " +
            TextOf(agent.highest) + " launcher " + std::to_string(agent.launcher);
    for (const Rank& rank : agent.ranks) {
      text += ", in " + TextOf(rank.given) + (rank.left ? " left" : "") +
              (rank.hung ? " hangs" : "") + (rank.at_boundary ? " at boundary" : "") + " step " +
              std::to_string(rank.state.step) + " of " + TextOf(rank.state.version);
    }
    text += "\n";
  }
  for (const auto& one : launchers_) {
    if (one && one->alive) {
      text += "  " + control::EncodeLauncherStatus(one->membership.Status(now_)) + "\n";
    }
  }
  return text;
}

}  // namespace ringmaster::launcher::model
