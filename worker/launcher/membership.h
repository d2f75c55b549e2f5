#pragma once

// What the launcher decides: who is a member, when mpirun runs, when the start gate opens, what a
// loss means, how the job ended. A pure state machine: events in, actions out, time from outside;
// no I/O and no threads, so that every interleaving can be tested. launcher.h carries its actions
// out.
//
//   WaitingForOrder → WaitingForAgents → Starting (mpirun, attaches) → Running ⇄ Forming ⇄ Paused
//                       ▲     ▼               │                           ▲  │      (our own
//                       trainer) │   Adopting (a world runs already) ──────────────┘  │
//                       └──────────────── Stopping ◄──┴──────────────────────┘        → Finished
//
// A program that is not our trainer knows no Forming: whatever changes its world goes through
// Stopping. The header is longer than most: one state, however many files decide on it.
//
// Sources: membership.cc (events), membership_reports.cc (what ranks of our own trainer report),
// membership_world.cc (the first world, and ending one), membership_change.cc (one world after
// another), membership_stall.cc (ranks that hang or are slow), membership_takeover.cc (the world
// that a launcher before us left), judgement.cc (how the job ended), membership_status.cc (words
// for people).

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/control/launcher_api.h"
#include "common/control/messages.h"
#include "worker/launcher/adoption.h"
#include "worker/launcher/cooldown.h"
#include "worker/launcher/crash_limit.h"
#include "worker/launcher/membership_actions.h"
#include "worker/launcher/rank_metrics.h"
#include "worker/launcher/recovery_watch.h"
#include "worker/launcher/rendezvous_store.h"
#include "worker/launcher/restart_limit.h"
#include "worker/launcher/safekeeping.h"
#include "worker/launcher/stall_watch.h"
#include "worker/launcher/start_gate.h"
#include "worker/launcher/straggler_watch.h"
#include "worker/launcher/world_change.h"

namespace ringmaster::launcher {

// Not thread-safe. Every event returns what to do, in order.
class Membership {
 public:
  using Time = Clock::Time;

  explicit Membership(MembershipOptions options);

  // kConflict: a higher stamp was seen.
  Result<Actions> OnOrder(Time now, const control::Order& order);
  // mpirun was found; no epoch starts before.
  Actions OnMpiVersion(Time now, const std::string& version);
  // What agents do, one by one: Settle() says what follows from all of it, and is to be called soon
  // after. So what a thousand agents say at once is thought about once.
  //
  // The first line of a connection.
  Actions OnHello(Time now, ConnectionId connection, const control::AgentHello& hello);
  // Any later line. One that an agent never sends ends its connection.
  Actions OnMessage(Time now, ConnectionId connection, const control::Message& message);
  Actions OnClosed(Time now, ConnectionId connection);
  // The answer to a Probe action.
  Actions OnProbe(Time now, const std::string& pod_uid, bool refused);
  Actions Settle(Time now);

  Actions OnMpirunExited(Time now, int64_t cohort, const MpirunExit& exit);
  // At least every MembershipOptions::heartbeat.
  Actions OnTick(Time now);
  // Our own process is asked to end, without a verdict: a program goes with us, our own trainer's
  // ranks wait for the next launcher.
  Actions OnTerminate(Time now);
  // We cannot go on: a verdict.
  Actions OnOwnFailure(Time now, const std::string& reason, const std::string& message);

  // At most so many bytes for each worker, and some.
  control::LauncherStatus Status(Time now) const;
  // Its message alone: what is waited for, in a sentence.
  std::string WaitingText(Time now) const;
  // For metrics; without the job's name.
  JobTimes Times(Time now) const;
  control::LauncherPhase phase() const { return phase_; }
  // Of the newest world that was started, or is about to be by mpirun.
  const control::Epoch& epoch() const { return epoch_; }
  const std::vector<control::Member>& members() const { return members_; }

 private:
  using Slot = StartGate::Slot;
  // What runs in a slot, as its agent says (our own trainer).
  struct Process {
    std::string loaded;  // Member::start of the one that can join a world; empty: none
    Time loaded_at{};
    std::optional<control::RankExit> exit;  // of the newest that ended
    Time ended_at{};
    bool replaced = false;     // another one has loaded since
    control::RankStack stack;  // the newest that its agent sent
  };
  // A worker Pod that has said hello, or that another launcher's world named; for as long as the
  // launcher lives.
  struct Worker {
    control::AgentHello hello;
    std::optional<ConnectionId> connection;
    std::optional<control::AgentReady> ready;  // of this connection
    bool repeated = false;  // this connection has brought everything that still held at its start
    std::string address;    // the newest that it reported
    int ssh_port = 0;
    Time last_heard{};
    Time disconnected_at{};
    Time welcomed_at{};
    Time ready_since{};
    std::optional<control::DataCacheProgress> filling;  // its data cache, until it is ready
    Time filled_at{};                                   // when that moved last
    std::map<int, Process> processes;                   // by slot
    std::set<MemberId> stopping;  // its ranks of a world that went on without it
    control::Epoch prepared;      // the highest that we asked it to accept
    control::Epoch told;          // the newest world that this connection was told
    bool leaving = false;
    bool silent = false;  // given up by the next world; until that starts it may come back
    bool dead = false;    // by evidence
    bool lost = false;    // fenced: never again
  };
  struct ReportedExit {
    control::RankExit exit;
    std::size_t arrival = 0;  // its place among the reports of this epoch
  };

  // Events (membership.cc, membership_reports.cc).
  void On(Time now, Worker& worker, const control::AgentReady& ready);
  void On(Time now, Worker& worker, const control::DataCacheProgress& progress);
  void On(Time now, Worker& worker, const control::Heartbeat& heartbeat);
  void On(Time now, Worker& worker, const control::SlotAttached& attached);
  void On(Time now, Worker& worker, const control::RankExited& exited);
  void On(Time now, Worker& worker, const control::RankProgress& progress);
  void On(Time now, Worker& worker, const control::RankDone& done);
  void On(Time now, Worker& worker, const control::AgentLeaving& leaving);
  void On(Time now, Worker& worker, const control::StoreSet& set);
  void On(Time now, Worker& worker, const control::StoreGet& get);
  void On(Time now, Worker& worker, const control::RankReady& ready);
  void On(Time now, Worker& worker, const control::EpochAccepted& accepted);
  void On(Time now, Worker& worker, const control::WorldReport& report);
  void On(Time now, Worker& worker, const control::RankBroken& broken);
  void On(Time now, Worker& worker, const control::RankAtBoundary& boundary);
  void On(Time now, Worker& worker, const control::SlotOutput& output);
  void On(Time now, Worker& worker, const control::RankPositions& positions);
  void On(Time now, Worker& worker, const control::RankStack& stack);
  void On(Time now, Worker& worker, const control::CheckpointWritten& written);
  void On(Time now, Worker& worker, const control::CheckpointDone& done);
  void On(Time now, Worker& worker, const control::RankProtection& protection);
  void On(Time now, Worker& worker, const control::RankBegan& began);
  void AskForCheckpoint(Time now);
  void KeepFailure(control::RankExit exit);
  bool LoadsAgain(const control::RankExit& exit) const;
  // By a failure that ends the job; by a row of crashes, unless training got further after all.
  bool MustFail() const { return must_fail_ || crashes_.Reached(); }
  void NoteCrash(Time now, const control::RankExit& exit, Time since);
  bool WorldUnknown() const;
  void KeepForLater(const Worker& worker, int rank, control::Message message);
  // What is said of a world that we have yet to learn of is heard again when we have.
  template <typename OfRank>
  bool KeptForLater(const Worker& worker, const OfRank& message) {
    if (!WorldUnknown()) return false;
    int rank = -1;  // of all of the worker's ranks at once
    if constexpr (requires { message.rank; }) rank = message.rank;
    KeepForLater(worker, rank, message);
    return true;
  }
  void OnManagedExit(Time now, Worker& worker, const control::RankExited& exited);
  void NoteReplaced(Time now, const Worker& worker, int slot, const std::string& start);
  void Welcome(Worker& worker);
  void OnRestartedAgent(Time now, Worker& worker);
  void Advance(Time now);  // whatever has become possible
  bool CanWait(const control::Message& message) const;
  void JudgeSilence(Time now);
  void LoseWorker(Time now, Worker& worker, const std::string& cause, const std::string& reason);
  void Bury(Time now, Worker& worker, const std::string& cause, const std::string& reason);
  void Fence(Worker& worker);
  void Hangup(Time now, Worker& worker);
  void Send(const Worker& worker, const control::Message& message);
  void SendToPods(const std::set<std::string>& pod_uids, const control::Message& message);
  void SendWorld(const std::optional<control::ChangeEpoch>& difference);
  void SendHeartbeats();
  std::chrono::milliseconds Heartbeat() const;
  void Answer(const std::vector<RendezvousStore::Answer>& answers);

  // The first world, and ending one (membership_world.cc).
  bool InOrder(const std::string& pod_uid) const;
  bool IsReady(const Worker& worker) const;
  bool IsMember(const std::string& pod_uid) const;
  void SetMembers(std::vector<control::Member> members);
  // Of the newest world; null: that slot has none.
  const control::Member* MemberAt(const std::string& pod_uid, int slot) const;
  const std::vector<int>& RanksOf(const std::string& pod_uid) const;
  std::vector<std::string> ReadyInRankOrder() const;
  bool EveryoneReady(const std::vector<std::string>& ready) const;
  std::set<std::string> Unaccounted() const;
  bool EnoughAfterAWhile(Time now, int ready) const;
  bool IsFilling(const Worker& worker) const;
  Time LastFilled() const;
  bool HeldByAnOlderWorld(Time now) const;
  void TryStart(Time now);
  void Start(Time now, const std::vector<std::string>& pod_uids);
  void TryOpenGate(Time now);
  void OpenGate(Time now);
  void ReformIfNeeded(Time now);
  // `cause` in words and, for a program that has to begin anew, in one, and by whom.
  void Stop(Time now, const std::string& cause, const char* word = "WorldChanged",
            const Worker* whose = nullptr);
  void NoteRestart(Time now, const char* word, const Worker* worker);
  void NoteRestartByLauncher();
  void ForgetWorldChanges();
  void FinishStopping(Time now);
  int WorldSize() const { return static_cast<int>(members_.size()); }

  // One world after another (membership_change.cc).
  bool Elastic() const;  // a world of our own trainer exists whose ranks outlive changes
  void AdvanceWorld(Time now);
  void AdvanceForming(Time now);
  bool Gone(const control::Member& member) const;
  bool KnownDead(const std::string& pod_uid) const;
  bool Leaving(const std::string& pod_uid) const;
  std::vector<control::Member> Survivors() const;
  std::vector<control::Member> Joiners(Time now,
                                       const std::vector<control::Member>& survivors) const;
  // Pods that stand for all builds among these members: one of each.
  std::vector<std::string> BuildsOf(const std::vector<control::Member>& members) const;
  void AddBuild(const std::string& pod_uid, std::vector<std::string>& builds) const;
  bool SameBuild(const std::string& pod_uid, const std::string& other) const;
  std::string UnfitText(const std::string& pod_uid, const std::vector<std::string>& builds) const;
  bool SomebodyMayJoin() const;
  std::size_t SurvivingPods() const;
  std::vector<control::Member> Next(Time now) const;
  bool ChangeWanted(Time now) const;
  void BeginSwitch(Time now);
  void NoteLeavers(Time now);
  bool EveryoneAtBoundary() const;
  bool AllAtBoundary(Time now) const;
  void JudgeBroken(Time now);
  void LeaveOut(Time now, const control::Member& member, const std::string& why, const char* cause);
  template <typename WithUs>
  bool QuorumOf(WithUs with_us) const;
  bool StateReachable(const std::vector<control::Member>& next) const;
  std::string PauseReason(const std::vector<control::Member>& next) const;
  bool NobodyIsLeft(const std::vector<control::Member>& next) const;
  void Form(Time now);
  void Prepare(Time now, const std::vector<control::Member>& next);
  void DropTheUnanswering(Time now);
  void StartProposal(Time now);
  void NoteLoss(Time now, const Worker& worker, const std::string& cause, Time last_sign);
  void NoteCommitted(int64_t step);

  // Ranks that hang or are slow (membership_stall.cc).
  void WatchWorld(Time now);
  void AddStack(const Worker& worker, control::RankExit& exit) const;
  bool JudgeStall(Time now);
  void NoteWhoCannotConnect(Time now);
  void LeaveOutTheUnkillable(Time now);
  std::vector<control::Straggler> Stragglers(Time now) const;

  // The world that a launcher before us left (membership_takeover.cc).
  bool ReportsMayCome(Time now) const;
  bool ShouldAdopt() const;
  bool AwaitsMembers() const;
  void AskForMembers(Time now);
  void BeginAdopting(Time now);
  void AdvanceAdopting(Time now);
  void Adopt(Time now);
  void NoteSilentState();
  void NoteState(const control::Member& member, const control::RankPosition& position);

  // How the job ended (judgement.cc).
  void JudgeFaults(Time now);
  std::string MixedText(const std::vector<std::string>& pod_uids) const;
  void JudgeMpirun(Time now);
  void JudgeEarlyExits(Time now);
  void JudgeExits(Time now);
  void NoteFailure(Time now, const control::RankExit& exit);
  void JudgeFailures(Time now);
  bool EndedWell(const control::Member& member) const;
  bool AllEndedWell() const;
  void FailBy(Time now, const control::RankExit& exit);
  // No other start of the rank can mend it.
  bool FailsAtOnce(const control::RankExit& exit) const;
  int Suspicion(const control::RankExit& exit) const;
  bool EveryMemberHeardSince(Time since) const;
  std::string GateText() const;
  std::string MismatchText() const;
  void FinishIfReleased(Time now);
  void Succeed(Time now);
  void Fail(Time now, const std::string& reason, const std::string& message, int exit_code,
            const std::optional<control::RankExit>& first = std::nullopt);
  void End(Time now, const control::Verdict& verdict, int exit_code);

  // Words (membership_status.cc).
  control::WorkerReport ReportOf(const std::string& pod_uid,
                                 const std::vector<std::string>& builds) const;
  std::string WaitingForAgentsText(Time now) const;
  std::string PausedText() const;
  std::string MissingText() const;
  std::string FillingText() const;
  std::string CrashText() const;
  std::string RankText(const control::RankExit& exit) const;
  std::string NameOf(const std::string& pod_uid) const;  // "digits-worker-1 (node2)"
  std::string SlotText(const Slot& slot) const;

  const MembershipOptions options_;
  std::string openmpi_version_;  // of this launcher's mpirun; empty: not known yet
  Actions actions_;              // collected during one event

  control::LauncherPhase phase_ = control::LauncherPhase::kWaitingForOrder;
  bool unsettled_ = false;  // something has happened since Advance
  std::optional<control::Order> order_;
  std::set<std::string> ordered_;                    // Pods that it names
  std::map<std::string, Time> unwanted_since_;       // Pods that a former order named, for a while
  std::map<std::string, Worker> workers_;            // by Pod UID
  std::map<ConnectionId, std::string> connections_;  // accepted hellos → Pod UID
  std::map<std::string, std::size_t> seniority_;  // Pods of the newest epoch → place, oldest first
  std::string last_change_;                       // why the last epoch ended
  int64_t epochs_run_ = 0;                        // gates opened
  int failed_starts_ = 0;                         // of mpirun, since the last open gate
  int64_t highest_number_ = 0;                    // of any epoch heard of
  Time waiting_since_{};
  Time last_tick_{};
  int64_t tick_ = 0;
  std::optional<Time> first_hello_at_;
  std::optional<Time> fault_seen_;

  // The newest world: from Start, or from its StartEpoch, until the next one's StartEpoch or the
  // end of Stop.
  control::Epoch epoch_;
  int64_t cohort_ = 0;
  std::vector<control::Member> members_;  // by rank; SetMembers alone changes who they are
  std::set<std::string> member_pods_;
  std::map<std::string, std::vector<int>> ranks_of_;  // of each Pod
  StartGate gate_;
  std::optional<Time> mismatch_at_;
  Time started_at_{};
  Time gate_opened_at_{};
  Time attached_at_{};  // newest process
  bool mpirun_running_ = false;
  std::optional<MpirunExit> mpirun_exit_;
  Time mpirun_exited_at_{};
  std::map<Slot, ReportedExit> exits_;
  std::optional<Time> first_failure_at_;
  std::set<int> done_;            // ranks past their last step
  bool nothing_trained_ = false;  // rank 0 said so when it was done
  std::optional<Time> released_at_;
  Time stop_deadline_{};
  RendezvousStore store_;
  std::optional<control::Progress> progress_;

  // Changes of a world of our own trainer.
  control::Epoch known_epoch_;        // the highest that ever started, as far as we know
  bool formed_here_ = false;          // the newest world, by us
  MemberIds stateful_;                // members that hold the training's state, or may
  bool all_stateful_ = false;         // all of them
  MemberIds ended_;                   // members whose end is certain
  std::optional<Proposal> proposal_;  // while kForming, and while kPaused below min_replicas
  Time prepared_at_{};
  std::string pause_reason_;
  bool switching_ = false;     // SwitchEpoch was sent
  std::set<int> at_boundary_;  // ranks
  std::optional<Time> first_at_boundary_;
  std::map<int, control::RankBroken> broken_;  // by rank
  std::optional<Time> first_broken_at_;
  int same_world_attempts_ = 0;  // in a row without a committed step
  StallWatch stall_watch_;
  StragglerWatch straggler_watch_;
  struct Stalled {
    Time asked_at{};     // its agent, to end it
    Time still_since{};  // the world
  };
  std::map<MemberId, Stalled> stalled_;  // members of this world that are to end
  Adoption adoption_;
  ConnectionId asked_for_members_ = 0;
  Time asked_for_members_at_{};
  Time adopting_since_{};
  // Told before the world is known, the newest of each: by Pod UID, rank, type.
  std::map<std::tuple<std::string, int, std::size_t>, control::Message> early_;
  Cooldown cooldown_;
  RestartLimit restarts_;
  CrashLimit crashes_;
  std::string newest_crash_;  // in words
  RecoveryWatch recovery_;
  Safekeeping safekeeping_;
  std::deque<control::RankExit> failures_;  // for the status
  std::vector<control::RankExit> failing_;  // of the last moments: candidates for the blame
  bool must_fail_ = false;
};

}  // namespace ringmaster::launcher
