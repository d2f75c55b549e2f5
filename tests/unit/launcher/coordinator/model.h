#pragma once

// A small world to try Coordinator in: worker Pods whose agents and ranks follow the protocol of
// common/control/README.md, up to two launchers of terms 1 and 2, a network that reorders between
// channels, breaks, and is cut, and an operator that knows who is dead. Nothing happens by itself:
// a test chooses what comes next, and may copy the world to try something else. In a direct job
// there is one launcher, no cut, and no rank ends by itself; its ranks end with mpirun.
//
// A broken promise ends up in `broken`, in words:
//   - two epochs that could both commit a step at the same time,
//   - a step in a lower epoch than one before it,
//   - a committed step lost while a rank that has it lives and is not fenced,
//   - a checkpoint granted to a world that is not the launcher's newest, or known before it was
//     written,
//   - a verdict, although no rank ended by itself.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "worker/launcher/coordinator/coordinator.h"

namespace ringmaster::launcher::model {

// What a rank holds: the epoch that made its last step, and that step.
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
  bool frozen = false;  // hung, and cannot be killed
  State state;
  std::optional<control::RankExited> exit_report;
  std::optional<control::SlotAttached> attached;
};

struct Agent {
  bool alive = true;
  control::Epoch highest;
  control::Epoch prepared;
  int64_t term = 0;
  int launcher = -1;  // it is connected to
  ConnectionId connection = 0;
  bool welcomed = false;
  control::StartEpoch world;  // the newest it was a member of
  std::vector<Rank> ranks;    // by slot
};

struct Choice {
  enum class Kind {
    kToLauncher,  // the next message of agent `who` arrives
    kToAgent,
    kDial,        // agent `who` reaches launcher `whom`
    kTick,        // everything in flight arrives where it can, and 100 ms pass
    kStep,        // the epoch that can commits a step
    kCheckpoint,  // a rank has written one; `whom` is the slot, as below
    kKeep,        // the operator wants one, or no longer
    kKillRank,
    kHang,    // a rank stops to make progress
    kFreeze,  // the same, and it outlives its kill
    kKillPod,
    kBreak,         // the connection of `who`
    kCut,           // agent `who` can talk to launcher `whom` and to the other side's ranks no more
    kMend,          // all cuts
    kNewLauncher,   // of term 2; the first lives on
    kKillLauncher,  // the first
    kTell,          // the operator tells the launchers who is dead
    kGrow,          // it orders one more
    kShrink,        // it orders without `who`
    kReport,        // a rank that waits in vain says so
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

  // `wanted` of these workers are ordered at first; the world has formed and made a step.
  Model(int workers, int wanted, int min_replicas, Job job = {1, true});

  // What may happen next. Faults only while there are some left.
  std::vector<Choice> Choices() const;
  void Do(const Choice& choice);

  // No faults any more: cuts mend, the dead are told, the older launcher of two ends. True when a
  // step is committed within a bounded time, or nobody who could is left.
  bool Recovers();

  // Two worlds of the same digest behave alike, near enough to look at one of them only.
  std::string Digest() const;
  std::string Describe() const;

  std::string broken;
  int faults_left = 3;
  bool settles_late = false;  // launchers think about what they hear with each tick only
  int64_t steps = 0;          // committed since the beginning

 private:
  struct Launcher {
    explicit Launcher(const CoordinatorOptions& options) : membership(options) {}
    Coordinator membership;
    bool alive = true;
    control::Epoch started;  // the newest that it told of
    int64_t mpirun = 0;      // cohort that runs
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
  // For the same world as this rank.
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
  std::map<ConnectionId, int> connections_;  // → worker
  ConnectionId next_connection_ = 1;
  std::set<std::pair<int, int>> cuts_;  // worker, launcher
  std::set<int> ordered_;
  std::set<int> told_dead_;
  std::deque<PendingProbe> probes_;
  int64_t generation_ = 0;
  bool wants_checkpoint_ = false;
  State committed_;
  control::Epoch last_stepped_;
};

}  // namespace ringmaster::launcher::model
