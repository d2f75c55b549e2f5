#include "model.h"

#include <algorithm>

#include "common/control/world_difference.h"

namespace ringmaster::launcher::model {
namespace {

using Kind = Choice::Kind;

MembershipOptions OptionsOf(int64_t term) {
  MembershipOptions options;
  options.term = term;
  options.job_uid = "job";
  options.agent_token = "token";
  options.lost_after = std::chrono::milliseconds(250);
  options.redial_within = std::chrono::milliseconds(150);
  options.adopt_within = std::chrono::milliseconds(500);
  options.adopt_rest_within = std::chrono::milliseconds(300);
  options.join_window = std::chrono::milliseconds(100);
  options.broken_settle = std::chrono::milliseconds(100);
  options.partial_after = std::chrono::hours(1);
  options.crash_limit = 0;  // as many faults as there are
  return options;
}

std::string TextOf(const control::Epoch& epoch) {
  return std::to_string(epoch.term) + "." + std::to_string(epoch.number);
}

int WorkerOf(const std::string& pod_uid) { return std::stoi(pod_uid.substr(1)); }

}  // namespace

std::string ToString(const Choice& choice) {
  static constexpr const char* kNames[] = {
      "to-launcher", "to-agent", "dial",   "tick",  "step",         "kill-rank",
      "kill-pod",    "break",    "cut",    "mend",  "new-launcher", "kill-launcher",
      "tell",        "grow",     "shrink", "report"};
  return std::string(kNames[static_cast<int>(choice.kind)]) + " " + std::to_string(choice.who) +
         (choice.whom == 0 ? "" : "/" + std::to_string(choice.whom));
}

Model::Model(int workers, int wanted, int min_replicas)
    : workers_(workers),
      min_replicas_(min_replicas),
      agents_(static_cast<std::size_t>(workers)),
      channels_(static_cast<std::size_t>(workers)),
      launchers_(kLaunchers) {
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
  slot.emplace(OptionsOf(launcher + 1));
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
  return order;
}

// The operator talks to the newest launcher alone, as its Pod is the one it watches.
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
      for (const ConnectionId connection : all->connections) {
        const auto found = connections_.find(connection);
        if (found != connections_.end()) {
          ChannelOf(found->second).to_agent.push_back(all->message);
        }
      }
    } else if (const auto* send = std::get_if<SendTo>(&action)) {
      const auto found = connections_.find(send->connection);
      if (found == connections_.end()) continue;
      ChannelOf(found->second).to_agent.push_back(send->message);
    } else if (const auto* refuse = std::get_if<Refuse>(&action)) {
      const auto found = connections_.find(refuse->connection);
      if (found == connections_.end()) continue;
      ChannelOf(found->second).to_agent.push_back(control::Refused{refuse->reason});
    } else if (const auto* drop = std::get_if<Drop>(&action)) {
      const auto found = connections_.find(drop->connection);
      if (found != connections_.end()) Hangup(found->second, false);
    } else if (const auto* start = std::get_if<StartMpirun>(&action)) {
      self.mpirun = start->cohort;
      self.mpirun_stopping = false;
      int rank = 0;
      for (const Host& host : start->hosts) {
        const int worker = WorkerOf(host.pod_uid);
        At(worker).attached = control::SlotAttached{start->cohort, 0, rank++, start->world_size};
        if (At(worker).welcomed) Say(worker, *At(worker).attached);
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
  hello.nonce = "n";
  hello.highest_epoch = agent.highest;
  ChannelOf(worker).to_launcher.push_back(hello);
}

void Model::Hangup(int worker, bool tell_launcher) {
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
  if (term < agent.highest.term || term < agent.term) return Hangup(worker, true);
  agent.term = term;
  agent.welcomed = true;
  Say(worker, control::AgentReady{"10.0.0." + std::to_string(worker), 22, {}, {}});
  if (agent.attached) Say(worker, *agent.attached);
  Say(worker, control::RankReady{0, agent.start()});
  if (!agent.world.members.empty()) {
    Say(worker, ReportOf(worker));
  }
  if (agent.prepared.number != 0 && agent.prepared.term == term) {
    Say(worker, control::EpochAccepted{agent.prepared});
  }
  for (const control::Member& member : agent.members) {
    if (agent.at_boundary && WorkerOf(member.pod_uid) == worker) {
      Say(worker, control::RankAtBoundary{agent.given, member.rank, agent.state.step});
    }
  }
  if (agent.exit_report) Say(worker, *agent.exit_report);
}

control::WorldReport Model::ReportOf(int worker) const {
  const Agent& agent = At(worker);
  control::WorldReport report{agent.world.epoch, {}, {}};
  if (agent.given == agent.world.epoch) report.running.push_back(agent.start());
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
    if (agent.given < prepare->epoch) agent.left = true;
    Say(worker, control::EpochAccepted{prepare->epoch});
  } else if (const auto* start = std::get_if<control::StartEpoch>(&message)) {
    if (start->epoch < agent.highest || start->epoch == agent.given) return;
    agent.highest = start->epoch;
    for (const control::Member& member : start->members) {
      if (member.pod_uid != Uid(worker)) continue;
      agent.world = *start;
      if (member.start != agent.start()) continue;
      agent.given = start->epoch;
      agent.members = start->members;
      agent.left = agent.adopted = agent.switching = agent.at_boundary = false;
    }
  } else if (const auto* change = std::get_if<control::ChangeEpoch>(&message)) {
    if (change->epoch < agent.highest) return;
    if (change->base != agent.world.epoch) return Hangup(worker, true);
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
    if (switching->epoch == agent.given) agent.switching = true;
  } else if (const auto* stop = std::get_if<control::StopEpoch>(&message)) {
    if (agent.given.number != 0 && agent.given <= stop->epoch) EndRank(worker, 15, true);
  }
}

// With `again` its agent starts another one, which has loaded at once.
void Model::EndRank(int worker, int signal, bool again) {
  Agent& agent = At(worker);
  control::RankExited exited;
  exited.epoch = agent.given;
  exited.exit.start = agent.start();
  exited.exit.exit_code = -1;
  exited.exit.signal = signal;
  agent.given = {};
  agent.members.clear();
  agent.left = true;
  agent.adopted = agent.switching = agent.at_boundary = false;
  agent.state = {};
  if (!again) return;
  ++agent.starts;
  agent.exit_report = exited;
  if (agent.welcomed) {
    Say(worker, exited);
    Say(worker, control::RankReady{0, agent.start()});
  }
}

void Model::EndPod(int worker) {
  EndRank(worker, 9, false);
  At(worker).alive = false;
  Hangup(worker, true);
}

// Ranks reach each other unless a cut put them on different sides: whoever is cut from a launcher
// is cut from the ranks that are not.
bool Model::PeersReach(int a, int b) const {
  for (int launcher = 0; launcher < kLaunchers; ++launcher) {
    if (CutFrom(a, launcher) != CutFrom(b, launcher)) return false;
  }
  return true;
}

// Given up for good by a quorum: what it holds is held by the others, or lost with them.
bool Model::Fenced(int worker) const {
  for (const auto& one : launchers_) {
    if (!one) continue;
    for (const control::WorkerReport& report : one->membership.Status(now_).workers) {
      if (report.pod_uid == Uid(worker) && report.lost) return true;
    }
  }
  return false;
}

bool Model::Able(const control::Epoch& epoch) const {
  for (const Agent& agent : agents_) {
    if (!agent.alive || agent.given != epoch || epoch.number == 0) continue;
    return std::all_of(agent.members.begin(), agent.members.end(), [&](const auto& member) {
      const Agent& peer = At(WorkerOf(member.pod_uid));
      return peer.alive && peer.given == epoch && !peer.left && !peer.at_boundary &&
             peer.start() == member.start;
    });
  }
  return false;
}

std::vector<control::Epoch> Model::AbleToStep() const {
  std::set<control::Epoch> epochs;
  for (const Agent& agent : agents_) {
    if (agent.alive && agent.given.number != 0 && Able(agent.given)) epochs.insert(agent.given);
  }
  return {epochs.begin(), epochs.end()};
}

void Model::Step(const control::Epoch& epoch) {
  std::vector<int> members;
  for (int worker = 0; worker < workers_; ++worker) {
    if (At(worker).alive && At(worker).given == epoch) members.push_back(worker);
  }
  for (const int a : members) {
    for (const int b : members) {
      if (!PeersReach(a, b)) return;
    }
  }
  if (epoch < last_stepped_) {
    broken = "a step in " + TextOf(epoch) + " after one in " + TextOf(last_stepped_);
  }
  last_stepped_ = epoch;
  State highest;
  for (const int worker : members) highest = std::max(highest, At(worker).state);
  if (highest < committed_) {
    for (int worker = 0; worker < workers_; ++worker) {
      if (At(worker).alive && At(worker).state == committed_ && !Fenced(worker)) {
        broken = "epoch " + TextOf(epoch) + " goes on from step " + std::to_string(highest.step) +
                 ", worker " + std::to_string(worker) + " has step " +
                 std::to_string(committed_.step);
      }
    }
  }
  const State next{epoch, highest.step + 1};
  committed_ = next;
  ++steps;
  const bool boundary =
      std::any_of(members.begin(), members.end(), [&](int worker) { return At(worker).switching; });
  for (const int worker : members) {
    Agent& agent = At(worker);
    agent.state = next;
    agent.adopted = true;
    for (const control::Member& member : agent.members) {
      if (WorkerOf(member.pod_uid) != worker) continue;
      if (member.rank == 0) Say(worker, control::RankProgress{epoch, {next.step, 0, 1, 1, -1}});
      if (boundary) Say(worker, control::RankAtBoundary{epoch, member.rank, next.step});
    }
    if (boundary) agent.at_boundary = true;
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
      for (const control::Member& member : agent.members) {
        if (WorkerOf(member.pod_uid) != worker) continue;
        control::RankPosition position{.rank = member.rank, .entered = agent.adopted};
        position.step = agent.state.step;
        Apply(launcher, one->membership.OnMessage(now_, agent.connection,
                                                  control::RankPositions{agent.given, {position}}));
      }
    }
    if (one->mpirun_stopping && one->mpirun != 0) {
      const int64_t cohort = std::exchange(one->mpirun, 0);
      one->mpirun_stopping = false;
      Apply(launcher, one->membership.OnMpirunExited(now_, cohort, {143, 0, "", {}}));
    }
    Apply(launcher, one->membership.OnTick(now_));
  }
  for (int worker = 0; worker < workers_; ++worker) {
    // A cut connection ends for the agent too.
    const Agent& agent = At(worker);
    if (agent.launcher >= 0 && CutFrom(worker, agent.launcher)) Hangup(worker, false);
  }
}

void Model::Look() {
  const std::vector<control::Epoch> able = AbleToStep();
  if (able.size() > 1) {
    broken = "both " + TextOf(able[0]) + " and " + TextOf(able[1]) + " can commit steps";
  }
}

// The operator takes nobody away from a launcher that does not know yet whom it has.
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
    if (!agent.left && !Able(agent.given)) choices.push_back({Kind::kReport, worker});
  }
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
    choices.push_back({Kind::kKillRank, worker});
    choices.push_back({Kind::kKillPod, worker});
    if (agent.launcher >= 0) choices.push_back({Kind::kBreak, worker});
    for (int launcher = 0; launcher < kLaunchers; ++launcher) {
      if (launchers_[static_cast<std::size_t>(launcher)] && !CutFrom(worker, launcher)) {
        choices.push_back({Kind::kCut, worker, launcher});
      }
    }
    if (ordered_.contains(worker) && ordered_.size() > 1 && KnowsItsWorld()) {
      choices.push_back({Kind::kShrink, worker});
    }
  }
  if (ordered_.size() < agents_.size()) choices.push_back({Kind::kGrow});
  if (!launchers_[1]) choices.push_back({Kind::kNewLauncher});
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
    case Kind::kKillRank:
      EndRank(who, 9, true);
      break;
    case Kind::kKillPod:
      EndPod(who);
      break;
    case Kind::kBreak:
      Hangup(who, true);
      break;
    case Kind::kCut:
      cuts_.insert({who, choice.whom});
      break;
    case Kind::kMend:
      cuts_.clear();
      break;
    case Kind::kNewLauncher:
      // It names every Pod that may be in the world, also who was to leave and has not yet.
      for (int worker = 0; worker < workers_; ++worker) {
        if (At(worker).alive && At(worker).given.number != 0) ordered_.insert(worker);
      }
      StartLauncher(1);
      break;
    case Kind::kKillLauncher:
      launchers_[0]->alive = false;
      for (int worker = 0; worker < workers_; ++worker) {
        if (At(worker).launcher == 0) Hangup(worker, false);
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
      for (const control::Member& member : At(who).members) {
        if (WorkerOf(member.pod_uid) == who) {
          Say(who, control::RankBroken{At(who).given, member.rank, -1, "reset"});
        }
      }
      break;
  }
  Look();
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
      if (At(worker).alive && !At(worker).left && !Able(At(worker).given) && i % 5 == 0) {
        Do({Kind::kReport, worker});
      }
    }
    if (i % 10 == 0) Do({Kind::kTell});
    if (!anybody) {
      const bool grown = ordered_.size() < agents_.size() &&
                         std::any_of(agents_.begin(), agents_.end(),
                                     [](const Agent& agent) { return agent.alive; });
      if (!grown) return true;  // nobody is left
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
    text += TextOf(agent.highest) + " " + TextOf(agent.given) + " " + std::to_string(agent.starts) +
            (agent.left ? "l" : "") + (agent.switching ? "s" : "") +
            (agent.at_boundary ? "b" : "") + std::to_string(agent.launcher) +
            (agent.welcomed ? "w" : "") + TextOf(agent.state.version) +
            std::to_string(agent.state.step - committed_.step) + ";";
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
            TextOf(agent.highest) + " in " + TextOf(agent.given) + (agent.left ? " left" : "") +
            (agent.at_boundary ? " at boundary" : "") + " step " +
            std::to_string(agent.state.step) + " of " + TextOf(agent.state.version) + " launcher " +
            std::to_string(agent.launcher) + "\n";
  }
  for (const auto& one : launchers_) {
    if (one && one->alive) {
      text += "  " + control::EncodeLauncherStatus(one->membership.Status(now_)) + "\n";
    }
  }
  return text;
}

}  // namespace ringmaster::launcher::model
