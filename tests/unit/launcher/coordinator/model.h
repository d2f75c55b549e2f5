#pragma once

// A model of a job for tests of Coordinator: worker Pods whose agents and ranks follow the protocol
// of common/control/protocol.md, up to two launchers (terms 1 and 2), a network that reorders
// messages between channels, breaks and is cut, and an operator that knows which Pods are dead. The
// test chooses every event, and may copy the model to try alternatives. A direct job has one
// launcher and no network cuts, and its ranks end only with mpirun.
//
// Do() describes these violations of the guarantees in `broken`:
//   - two epochs that could both commit a step at the same time,
//   - a step in a lower epoch than an earlier step,
//   - a committed step that is lost while a rank that has it is alive and not fenced,
//   - a checkpoint that is granted to a world other than the launcher's newest, or is reported
//     before it was written,
//   - a verdict although no rank ended by itself.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "worker/launcher/coordinator/coordinator.h"

namespace ringmaster::launcher::model {

// The state of a rank: its last step, and the epoch in which it ran that step.
struct State {
  control::Epoch version;
  int64_t step = 0;
  friend auto operator<=>(const State&, const State&) = default;
};

// The process in a slot of a Pod.
struct Rank {
  int starts = 1;
  control::Epoch given;
  std::vector<control::Member> members;
  bool left = true;
  bool adopted = false;
  bool switching = false;
  bool at_boundary = false;
  bool hung = false;
  bool frozen = false;  // hangs and cannot be killed
  State state;
  std::optional<control::RankExited> exit_report;
  std::optional<control::SlotAttached> attached;
};

struct Agent {
  bool alive = true;
  control::Epoch highest;
  control::Epoch prepared;
  int64_t term = 0;
  int launcher = -1;  // the launcher that the agent is connected to; -1: none
  ConnectionId connection = 0;
  bool welcomed = false;
  control::StartEpoch world;  // the newest world that the agent was in
  std::vector<Rank> ranks;    // by slot
};

struct Choice {
  enum class Kind {
    kToLauncher,  // the next message of agent `who` arrives
    kToAgent,
    kDial,        // agent `who` connects to launcher `whom`
    kTick,        // all messages that the network lets through arrive, and 100 ms pass
    kStep,        // the epoch that can commit steps commits a step
    kCheckpoint,  // a rank has written a checkpoint; `whom` is the slot, as below
    kKeep,        // the operator starts or stops requesting a checkpoint
    kKillRank,
    kHang,    // a rank stops making progress
    kFreeze,  // a rank stops making progress, and survives a kill
    kKillPod,
    kBreak,         // breaks the connection of `who`
    kCut,           // agent `who` cannot reach launcher `whom` or ranks across the cut
    kMend,          // ends all cuts
    kNewLauncher,   // starts the launcher of term 2; the first one keeps running
    kKillLauncher,  // kills the first launcher
    kTell,          // the operator tells the launchers which Pods are dead
    kGrow,          // the operator orders one more worker
    kShrink,        // the operator orders all workers except `who`
    kReport,        // a rank reports that its world cannot continue
  };
  Kind kind = Kind::kTick;
  int who = 0;
  int whom = 0;
};

std::string ToString(const Choice& choice);

class Model {
 public:
  static constexpr int kLaunchers = 2;

  struct Job {
    int slots = 1;
    bool elastic = true;
  };

  // Orders `wanted` of these workers, and returns after their world has completed a step.
  Model(int workers, int wanted, int min_replicas, Job job = {1, true});

  // Returns the possible next events. They include faults until faults_left is 0.
  std::vector<Choice> Choices() const;
  void Do(const Choice& choice);

  // Ends all faults: ends cuts, tells the launchers which Pods are dead, kills an older launcher.
  // Returns true if a step is committed within a time limit, or if no rank is left.
  bool Recovers();

  // Returns a digest. Models with the same digest behave alike, so the test explores only one.
  std::string Digest() const;
  std::string Describe() const;

  std::string broken;
  int faults_left = 3;
  bool settles_late = false;  // launchers handle received messages only at ticks
  int64_t steps = 0;          // steps committed since the beginning

 private:
  struct Launcher {
    explicit Launcher(const CoordinatorOptions& options) : membership(options) {}
    Coordinator membership;
    bool alive = true;
    control::Epoch started;  // the newest epoch that the launcher started
    int64_t mpirun = 0;      // the cohort of the running mpirun
    bool mpirun_stopping = false;
  };
  struct Channel {
    std::deque<control::Message> to_launcher;
    std::deque<control::Message> to_agent;
  };
  struct PendingProbe {
    int launcher;
    std::string pod_uid;
  };

  static std::string Uid(int worker) { return "w" + std::to_string(worker); }
  Channel& ChannelOf(int worker) { return channels_[static_cast<std::size_t>(worker)]; }
  Agent& At(int worker) { return agents_[static_cast<std::size_t>(worker)]; }
  const Agent& At(int worker) const { return agents_[static_cast<std::size_t>(worker)]; }
  Rank& At(int worker, int slot) { return At(worker).ranks[static_cast<std::size_t>(slot)]; }
  const Rank& At(int worker, int slot) const {
    return At(worker).ranks[static_cast<std::size_t>(slot)];
  }
  std::string StartOf(int worker, int slot) const;
  const control::Member* MemberOf(int worker, int slot) const;
  // Returns the ranks that were assigned the same world as this rank.
  std::vector<const Rank*> PeersOf(const Rank& rank) const;
  bool NobodyWaitsFor(const Rank& rank) const;
  bool Waits(const Rank& rank) const;
  control::RankPosition PositionOf(int worker, int slot) const;
  bool CutFrom(int worker, int launcher) const { return cuts_.contains({worker, launcher}); }
  bool PeersReach(int a, int b) const;

  void StartLauncher(int launcher);
  void SendOrders();
  control::Order OrderNow() const;
  void Apply(int launcher, Actions actions);
  void Settle(int launcher);
  void Dial(int worker, int launcher);
  void Disconnect(int worker, bool tell_launcher);
  void Say(int worker, control::Message message);
  void Hear(int worker, const control::Message& message);
  control::WorldReport ReportOf(int worker) const;
  void Welcomed(int worker, int64_t term);
  void DeliverToLauncher(int worker);
  void DeliverToAgent(int worker);
  void EndRank(int worker, int slot, int signal, bool again);
  void EndProgram(int64_t cohort);
  void Note(int launcher, const control::Message& message);
  void WriteCheckpoint(int worker, int slot);
  void EndPod(int worker);
  void Tick();
  std::vector<control::Epoch> AbleToStep() const;
  bool KnowsItsWorld() const;
  bool Fenced(int worker) const;
  bool Able(const control::Epoch& epoch) const;
  void Step(const control::Epoch& epoch);
  void Look();

  int workers_;
  int min_replicas_;
  Job job_;
  Clock::Time now_{std::chrono::hours(1)};
  std::vector<Agent> agents_;
  std::vector<Channel> channels_;
  std::vector<std::optional<Launcher>> launchers_;
  std::map<ConnectionId, int> connections_;  // connection to worker
  ConnectionId next_connection_ = 1;
  std::set<std::pair<int, int>> cuts_;  // worker and launcher
  std::set<int> ordered_;
  std::set<int> told_dead_;
  std::deque<PendingProbe> probes_;
  int64_t generation_ = 0;
  bool wants_checkpoint_ = false;
  State committed_;
  control::Epoch last_stepped_;
};

}  // namespace ringmaster::launcher::model
