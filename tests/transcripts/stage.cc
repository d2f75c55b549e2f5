#include "tests/transcripts/stage.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "common/control/launcher_api.h"
#include "worker/launcher/server/status_size.h"

namespace ringmaster::transcripts {
namespace {

constexpr char kLauncherLog[] = "launcher";  // messages between the launcher and the agents
constexpr char kApiLog[] = "api";
constexpr int64_t kSteps = 100;

std::string Uid(int worker) { return "uid-" + std::to_string(worker); }
std::string PodName(int worker) { return "digits-worker-" + std::to_string(worker); }
int WorkerOf(launcher::ConnectionId connection) { return static_cast<int>(connection); }
Json JsonOf(const control::Message& message) { return Json::parse(control::Encode(message)); }

Json EpochJson(const control::Epoch& epoch) {
  return {{"term", epoch.term}, {"number", epoch.number}};
}

launcher::CoordinatorOptions LauncherOptions() {
  launcher::CoordinatorOptions options;
  options.term = 1;
  options.job_uid = "job";
  options.agent_token = "token";
  return options;
}

}  // namespace

// One rank process of a worker. Each process has its own transcript.
class Stage::Rank {
 public:
  Rank(Stage& stage, int worker, int process)
      : stage_(stage),
        worker_(worker),
        name_("rank-of-worker-" + std::to_string(worker) +
              (process == 1 ? "" : "-again-" + std::to_string(process - 1))) {
    Note({{"transcript", "rank"}, {"protocol", control::kProtocolVersion}, {"slot", 0}});
    Await();
    Say(control::RankHello{0, 4711});
  }

  void Hear(const control::Message& message) {
    Note({{"agent", JsonOf(message)}});
    if (const auto* epoch = std::get_if<control::RankEpoch>(&message)) {
      Enter(*epoch);
    } else if (const auto* values = std::get_if<control::StoreValues>(&message)) {
      Json texts = Json::array();
      for (const std::string& value : values->values) texts.push_back(value);
      Does("get values", {{"values", texts}});
    } else if (const auto* leave = std::get_if<control::RankLeave>(&message)) {
      if (!(world_.epoch < leave->below)) return;
      if (!at_boundary_) Does("find the world over");
      Await();
    } else if (const auto* wanted = std::get_if<control::RankSwitch>(&message)) {
      switching_ = true;
      Does("find a switch wanted", {{"leaving", wanted->leaving}});
    } else if (std::holds_alternative<control::TakeCheckpoint>(message)) {
      Does("find a checkpoint wanted");
    } else if (const auto* grant = std::get_if<control::CheckpointGrant>(&message)) {
      Does("complete the checkpoint", {{"step", grant->step}, {"bytes", 8192}});
      Say(control::CheckpointDone{grant->epoch, grant->rank, grant->step, 8192});
    } else if (std::holds_alternative<control::Release>(message)) {
      Does("end");
      released_ = true;
    }
  }

  void Step(int64_t step) {
    if (world_.rank == 0) {
      const control::Progress progress = ProgressAt(step);
      Does("report", {{"progress", ProgressJson(progress)}});
      Say(control::RankProgress{world_.epoch, progress});
    }
    if (!switching_ || at_boundary_) return;
    at_boundary_ = true;
    Does("leave at the boundary", {{"step", step}});
    Say(control::RankAtBoundary{world_.epoch, world_.rank, step});
  }

  void Broken(int peer) {
    const std::string reason = "rank " + std::to_string(peer) + " went away";
    Does("report the world broken", {{"peer", peer}, {"reason", reason}});
    Say(control::RankBroken{world_.epoch, world_.rank, peer, reason});
  }

  void WriteShard(int64_t step) {
    Does("write a shard", {{"step", step}, {"shard", 0}, {"bytes", 4096}, {"checksum", "00ff"}});
    Say(control::CheckpointWritten{world_.epoch, world_.rank, step, 0, 4096, "00ff"});
  }

  void Begin(const std::string& message) {
    Does("say with what it begins", {{"step", 0}, {"message", message}});
    Say(control::RankBegan{world_.epoch, world_.rank, {0, message}});
  }

  void LackProtection(const std::string& reason) {
    Does("lack protection", {{"what", "snapshot"}, {"reason", reason}});
    Say(control::RankProtection{0, "snapshot", reason});
  }

  void Finish(int64_t step) {
    const control::Progress progress = ProgressAt(step);
    Does("finish", {{"progress", ProgressJson(progress)}});
    if (world_.rank == 0) Say(control::RankProgress{world_.epoch, progress});
    Say(control::RankDone{world_.epoch, world_.rank});
  }

  void Does(const std::string& what, Json details = Json::object()) {
    details["does"] = what;
    Note(std::move(details));
  }

  bool InWorld() const { return world_.epoch.number != 0 && !at_boundary_; }
  bool released() const { return released_; }
  int rank() const { return world_.rank; }

 private:
  static control::Progress ProgressAt(int64_t step) { return {step, kSteps, 1000, 0.5, -1}; }
  static Json ProgressJson(const control::Progress& progress) {
    return {{"step", progress.step},
            {"totalSteps", progress.total_steps},
            {"samplesPerSecond", progress.samples_per_second},
            {"loss", progress.loss},
            {"accuracy", progress.accuracy}};
  }

  void Await() { Does("await a world", {{"after", EpochJson(world_.epoch)}}); }

  void Enter(const control::RankEpoch& epoch) {
    world_ = epoch;
    switching_ = at_boundary_ = false;
    Does("enter the world", {{"epoch", EpochJson(epoch.epoch)},
                             {"as_rank", epoch.rank},
                             {"size", epoch.members.size()}});
    const std::string mine = "rank/" + std::to_string(epoch.rank);
    Does("set", {{"key", mine}, {"value", "hello of " + mine}});
    Say(control::StoreSet{epoch.epoch, mine, "hello of " + mine});
    control::StoreGet get{epoch.epoch, ++questions_, epoch.rank, {}};
    for (std::size_t rank = 0; rank < epoch.members.size(); ++rank) {
      get.keys.push_back("rank/" + std::to_string(rank));
    }
    Does("get", {{"keys", get.keys}});
    Say(get);
  }

  void Say(const control::Message& message);
  void Note(Json line) { stage_.recorded_[name_].push_back(std::move(line)); }

  Stage& stage_;
  const int worker_;
  const std::string name_;
  control::RankEpoch world_;
  int64_t questions_ = 0;
  bool switching_ = false;
  bool at_boundary_ = false;
  bool released_ = false;
};

// An agent with one slot, connected as in agent.cc, and the attach of that slot.
class Stage::Agent final : public agent::SlotActions {
 public:
  Agent(Stage& stage, int worker)
      : stage_(stage),
        worker_(worker),
        slots_(agent::Slots::Make({.pod_uid = Uid(worker),
                                   .pod = PodName(worker),
                                   .node = "node-" + std::to_string(worker),
                                   .slots = 1,
                                   .elastic = true,
                                   .program = "ringmaster-train",
                                   .nonce = "nonce-" + std::to_string(worker)},
                                  this)) {}

  void Start() {
    slots_->Preload();
    control::AgentHello hello;
    hello.token = "token";
    hello.job_uid = "job";
    hello.pod_uid = Uid(worker_);
    hello.pod = PodName(worker_);
    hello.node = "node-" + std::to_string(worker_);
    hello.worker_index = worker_;
    hello.nonce = "nonce-" + std::to_string(worker_);
    SendToLauncher(hello);
  }

  void Hear(const control::Message& message) {
    if (const auto* welcome = std::get_if<control::Welcome>(&message)) {
      if (!slots_->OnWelcome(welcome->term)) return;
      SendToLauncher(control::AgentReady{"10.0.0." + std::to_string(worker_ + 1),
                                         2200,
                                         {},
                                         {{"openmpi", "4.1.4"}, {"user", "ringmaster"}}});
    } else if (const auto* start = std::get_if<control::StartEpoch>(&message)) {
      slots_->OnStartEpoch(*start);
    } else if (const auto* change = std::get_if<control::ChangeEpoch>(&message)) {
      slots_->OnChangeEpoch(*change);
    } else if (const auto* stop = std::get_if<control::StopEpoch>(&message)) {
      slots_->OnStopEpoch(*stop);
    } else if (const auto* prepare = std::get_if<control::PrepareEpoch>(&message)) {
      slots_->OnPrepareEpoch(*prepare);
    } else if (const auto* switching = std::get_if<control::SwitchEpoch>(&message)) {
      slots_->OnSwitchEpoch(*switching);
    } else if (const auto* release = std::get_if<control::Release>(&message)) {
      slots_->OnRelease(*release);
    } else if (const auto* values = std::get_if<control::StoreValues>(&message)) {
      slots_->OnStoreValues(*values);
    } else if (const auto* grant = std::get_if<control::CheckpointGrant>(&message)) {
      slots_->OnCheckpointGrant(*grant);
    } else if (const auto* take = std::get_if<control::TakeCheckpoint>(&message)) {
      slots_->OnTakeCheckpoint(*take);
    } else if (std::holds_alternative<control::Shutdown>(message)) {
      slots_->End(std::chrono::milliseconds(1000));
    }
    EndReleasedRank();
  }

  void OnRankSaid(const control::Message& message) {
    if (std::holds_alternative<control::RankHello>(message)) return slots_->OnRankHello(0);
    (void)slots_->OnRankMessage(0, message);
  }

  void Attach(int mpi_rank, int mpi_world_size, int64_t cohort) {
    const control::AttachHello hello{cohort, 0, mpi_rank, mpi_world_size, false};
    NoteAttach({{"attach", JsonOf(hello)}});
    slots_->OnAttach(kAttach, hello);
  }

  void EndRank(int exit_code, int signal) {
    rank_.reset();
    slots_->OnRankExit(0, {{exit_code, signal}, std::chrono::minutes(1), {"its last line"}});
  }
  void Print(const std::string& text) { slots_->OnRankOutput(0, false, text); }
  // Heartbeats are not recorded, and positions are recorded once.
  void Beat() {
    for (const agent::RankStanding& standing : slots_->InWorld()) {
      control::RankPosition position{.rank = standing.rank, .slot = 0, .entered = true};
      position.step = stage_.step_;
      position.phase = control::RankPhase::kReduce;
      const control::RankPositions report{standing.epoch, {position}};
      if (!std::exchange(told_position_, true)) {
        stage_.ToLauncher(worker_, report);
      } else {
        stage_.Apply(stage_.membership_.OnMessage(stage_.now_, worker_, report));
      }
    }
    stage_.Apply(stage_.membership_.OnMessage(stage_.now_, worker_, control::Heartbeat{}));
  }
  Rank* rank() { return rank_.get(); }

  void SendToLauncher(const control::Message& message) override {
    stage_.Later([this, message] { stage_.ToLauncher(worker_, message); });
  }
  void DialLauncherAgain(const std::string& /*reason*/) override {}
  bool LauncherTakesOutput() const override { return true; }
  bool LauncherListens() const override { return true; }
  void SendToRank(int /*slot*/, const control::Message& message) override {
    stage_.Later([this, message = stage_.OverTheWire(message)] {
      if (rank_ == nullptr) return;
      rank_->Hear(message);
      EndReleasedRank();
    });
  }
  void SendToAttach(agent::AttachId /*attach*/, const control::Message& message) override {
    NoteAttach({{"agent", JsonOf(stage_.OverTheWire(message))}});
    if (std::holds_alternative<control::AttachExit>(message)) stage_.OnAttachEnded();
  }
  void StopAttach(agent::AttachId /*attach*/, std::chrono::milliseconds /*grace*/) override {}
  void CloseAttach(agent::AttachId /*attach*/) override {}
  Result<void> StartProgram(const agent::ProgramPlace& /*place*/) override { return {}; }
  Result<void> StartRank(int /*slot*/) override {
    ++processes_;
    stage_.Later([this] { rank_ = std::make_unique<Rank>(stage_, worker_, processes_); });
    return {};
  }
  void RestartRankAfter(int /*slot*/, std::chrono::milliseconds /*delay*/) override {
    stage_.Later([this] { slots_->OnRestartDue(0); });
  }
  void StopRank(int /*slot*/, std::chrono::milliseconds /*grace*/) override {
    stage_.Later([this] {
      if (rank_ == nullptr) return;
      rank_->Does("be told to end");
      EndRank(-1, SIGTERM);
    });
  }
  void EndHangingRank(int /*slot*/, const std::string& /*start*/,
                      const std::string& /*reason*/) override {}
  std::optional<control::OutOfMemory> LackOfMemory(const ProcessEnd& /*end*/) override {
    return std::nullopt;
  }
  void PrintLocally(int /*slot*/, int /*rank*/, bool /*is_stderr*/,
                    std::string_view /*data*/) override {}

 private:
  static constexpr agent::AttachId kAttach = 1;

  void EndReleasedRank() {
    if (rank_ != nullptr && rank_->released()) EndRank(0, 0);
  }
  void NoteAttach(Json line) {
    Transcript& transcript = stage_.recorded_["attach-of-worker-" + std::to_string(worker_)];
    if (transcript.empty()) {
      transcript.push_back({{"transcript", "attach"}, {"protocol", control::kProtocolVersion}});
    }
    transcript.push_back(std::move(line));
  }

  Stage& stage_;
  const int worker_;
  const std::unique_ptr<agent::Slots> slots_;
  std::unique_ptr<Rank> rank_;
  int processes_ = 0;
  bool told_position_ = false;
};

void Stage::Rank::Say(const control::Message& message) {
  Note({{"rank", JsonOf(message)}});
  stage_.Later([agent = stage_.agents_.at(worker_).get(), heard = stage_.OverTheWire(message)] {
    agent->OnRankSaid(heard);
  });
}

Stage::Stage() : membership_(LauncherOptions()) {
  recorded_[kLauncherLog].push_back(
      {{"transcript", "launcher"}, {"protocol", control::kProtocolVersion}});
  recorded_[kApiLog].push_back({{"transcript", "api"}, {"version", control::kApiVersion}});
  Apply(membership_.OnMpiVersion(now_, "4.1.4"));
}

Stage::~Stage() = default;

void Stage::Order(const std::vector<int>& workers, bool checkpoint) {
  control::Order order;
  order.stamp = {1, ++generation_};
  order.replicas = static_cast<int>(workers.size());
  order.min_replicas = 2;
  order.checkpoint = checkpoint;
  for (const int worker : workers) {
    order.workers.push_back(
        {Uid(worker), PodName(worker), "node-" + std::to_string(worker), worker});
  }
  const std::string text = control::EncodeOrder(order);
  recorded_[kApiLog].push_back({{"operator", {{"put", "/v1/order"}, {"body", Json::parse(text)}}}});
  auto actions = membership_.OnOrder(now_, *control::DecodeOrder(text));
  if (actions.ok()) Apply(*std::move(actions));
  Answer();
  Run();
}

void Stage::AskForStatus() {
  recorded_[kApiLog].push_back({{"operator", {{"get", "/v1/status"}}}});
  Answer();
}

void Stage::Answer() {
  const std::string text = launcher::EncodeWithin(membership_.Status(now_));
  recorded_[kApiLog].push_back({{"launcher", {{"code", 200}, {"body", Json::parse(text)}}}});
}

void Stage::StartAgent(int worker) {
  agents_[worker] = std::make_unique<Agent>(*this, worker);
  agents_[worker]->Start();
  Run();
}

void Stage::Step(int steps) {
  for (int i = 0; i < steps; ++i) {
    ++step_;
    for (const auto& [worker, agent] : agents_) {
      if (agent->rank() != nullptr && agent->rank()->InWorld()) agent->rank()->Step(step_);
    }
    Run();
  }
  if (steps > 0) Pass(std::chrono::milliseconds(100));
}

void Stage::Print(int worker, const std::string& text) {
  agents_.at(worker)->Print(text);
  Run();
}

void Stage::KillRank(int worker) {
  agents_.at(worker)->rank()->Does("be killed");
  agents_.at(worker)->EndRank(-1, SIGKILL);
}

void Stage::ReportBroken(int worker, int peer_rank) {
  agents_.at(worker)->rank()->Broken(peer_rank);
  Run();
}

void Stage::WriteCheckpoint() {
  for (const auto& [worker, agent] : agents_) {
    Rank* const rank = agent->rank();
    if (rank != nullptr && rank->InWorld() && rank->rank() == 0) rank->WriteShard(step_);
  }
  Run();
}

void Stage::Begin(int worker, const std::string& message) {
  agents_.at(worker)->rank()->Begin(message);
  Run();
}

void Stage::LackProtection(int worker, const std::string& reason) {
  agents_.at(worker)->rank()->LackProtection(reason);
  Run();
}

void Stage::Finish() {
  step_ = kSteps;
  for (const auto& [worker, agent] : agents_) {
    if (agent->rank() != nullptr && agent->rank()->InWorld()) agent->rank()->Finish(step_);
  }
  Run();
}

void Stage::Pass(std::chrono::milliseconds time) {
  for (auto passed = std::chrono::milliseconds(0); passed < time;
       passed += std::chrono::milliseconds(100)) {
    now_ += std::chrono::milliseconds(100);
    for (const auto& [worker, agent] : agents_) agent->Beat();
    Apply(membership_.OnTick(now_));
    Run();
  }
}

// mpirun ends when the last process that it started has ended.
void Stage::OnAttachEnded() {
  if (--attaches_ > 0) return;
  Later([this] { Apply(membership_.OnMpirunExited(now_, cohort_, {0, 0, "", {}})); });
}

control::Message Stage::OverTheWire(const control::Message& message) const {
  return *control::Decode(control::Encode(message));
}

void Stage::Run() {
  while (!queue_.empty()) {
    const auto what = std::move(queue_.front());
    queue_.pop_front();
    what();
  }
}

void Stage::ToLauncher(int worker, const control::Message& message) {
  recorded_[kLauncherLog].push_back({{"agent", worker}, {"says", JsonOf(message)}});
  const control::Message heard = OverTheWire(message);
  if (const auto* hello = std::get_if<control::AgentHello>(&heard)) {
    return Apply(membership_.OnHello(now_, worker, *hello));
  }
  Apply(membership_.OnMessage(now_, worker, heard));
}

void Stage::Apply(launcher::Actions actions) {
  for (const launcher::Action& action : actions) {
    if (const auto* all = std::get_if<launcher::SendToAll>(&action)) {
      launcher::Actions each;
      for (const launcher::ConnectionId connection : all->connections) {
        each.push_back(launcher::SendTo{connection, all->message});
      }
      Apply(std::move(each));
    } else if (const auto* send = std::get_if<launcher::SendTo>(&action)) {
      if (std::holds_alternative<control::Heartbeat>(send->message)) continue;
      const int worker = WorkerOf(send->connection);
      recorded_[kLauncherLog].push_back({{"to", worker}, {"launcher", JsonOf(send->message)}});
      Later([this, worker, message = OverTheWire(send->message)] {
        agents_.at(worker)->Hear(message);
      });
    } else if (const auto* start = std::get_if<launcher::StartMpirun>(&action)) {
      cohort_ = start->cohort;
      int rank = 0;
      for (const launcher::Host& host : start->hosts) {
        const int worker = std::stoi(host.pod_uid.substr(4));
        agents_.at(worker)->Attach(rank++, start->world_size, start->cohort);
      }
      attaches_ = rank;
    } else if (std::holds_alternative<launcher::StopMpirun>(action)) {
      Later([this] { Apply(membership_.OnMpirunExited(now_, cohort_, {143, 0, "", {}})); });
    } else if (const auto* finish = std::get_if<launcher::Finish>(&action)) {
      verdict_ = finish->verdict;
      recorded_[kApiLog].push_back(
          {{"launcher", {{"verdict", Json::parse(control::EncodeVerdict(finish->verdict))}}}});
    }
  }
  if (launcher::Actions following = membership_.Settle(now_); !following.empty()) {
    Apply(std::move(following));
  }
}

}  // namespace ringmaster::transcripts
