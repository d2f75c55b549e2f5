#pragma once

// The part of a running job that is the same for all programs: its workers, the start of the first
// world by mpirun or the agents, messages of agents, and the end of the job.
//
//   WaitingForOrder → WaitingForAgents → Starting (mpirun, attaches) → Running
//                          ▲                  │                           │
//                          └───────────── Stopping ◄──────────────────────┘        → Finished
//
// The derived classes handle the rest: ElasticJob if ranks keep running when the world changes,
// otherwise DirectJob. Coordinator owns one of them. A job can be copied, because it contains all
// its state by value.
//
// Sources: job.cc (events), job_starter.cc (mpirun or agents start the ranks), worker_loss.cc (lost
// workers), job_world.cc (starting the first world, ending a world), job_end.cc (ending the job),
// job_status.cc (status text).

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/control/launcher_api.h"
#include "common/control/messages.h"
#include "worker/launcher/model/actions.h"
#include "worker/launcher/model/checkpoint_tracker.h"
#include "worker/launcher/model/coordinator_options.h"
#include "worker/launcher/model/current_world.h"
#include "worker/launcher/model/failure_policy.h"
#include "worker/launcher/model/rank_metrics.h"
#include "worker/launcher/model/recovery_watch.h"
#include "worker/launcher/model/rendezvous_store.h"
#include "worker/launcher/model/startup.h"
#include "worker/launcher/model/worker_table.h"

namespace ringmaster::launcher {

class Job {
 public:
  using Time = Clock::Time;

  // Event handlers. Coordinator describes the events.
  Result<Actions> OnOrder(Time now, const control::Order& order);
  Actions OnMpiVersion(Time now, const std::string& version);
  Actions OnNoMpirun(Time now);
  Actions OnHello(Time now, ConnectionId connection, const control::AgentHello& hello);
  Actions OnMessage(Time now, ConnectionId connection, const control::Message& message);
  Actions OnClosed(Time now, ConnectionId connection);
  Actions OnProbe(Time now, const std::string& pod_uid, bool refused);
  Actions Settle(Time now);
  Actions OnMpirunExited(Time now, int64_t cohort, const MpirunExit& exit);
  Actions OnTick(Time now);
  Actions OnTerminate(Time now);
  Actions OnOwnFailure(Time now, const std::string& reason, const std::string& message);

  control::LauncherStatus Status(Time now) const;
  std::string WaitingText(Time now) const;
  virtual JobTimes Times(Time now) const = 0;
  control::LauncherPhase phase() const { return phase_; }
  const CurrentWorld& world() const { return world_; }

 protected:
  using Slot = StartGate::Slot;

  explicit Job(const CoordinatorOptions& options);
  Job(const Job&) = default;
  ~Job() = default;

  // Functions that differ between ElasticJob and DirectJob.
  //
  // Handles a message of an agent. Returns false if agents never send this type of message.
  virtual bool HandleMessage(Time now, Worker& worker, const control::Message& message) = 0;
  // Returns whether the decision about this message can wait until the next tick.
  virtual bool CanWait(const control::Message& message) const;
  // Performs the transitions that have become possible or necessary.
  virtual void Advance(Time now) = 0;
  // Sends a reconnected agent the messages that it may have missed.
  virtual void Welcome(Worker& worker) = 0;
  // Handles the loss of a member, for example one whose heartbeats have stopped.
  virtual void LoseWorker(Time now, Worker& worker, const std::string& cause,
                          const std::string& reason);
  // Excludes this worker permanently: another Pod takes its place.
  virtual void Fence(Worker& worker);
  // Returns whether the current world can change without a restart of its ranks.
  virtual bool WorldCanChange() const { return false; }
  // Returns the last committed step of this world; 0: none yet.
  int64_t CommittedStep() const;
  // Records that a step of the newest world is committed.
  virtual void NoteCommitted(int64_t step);
  // Records that the process of a member has ended together with its agent.
  virtual void NoteEnd(Time /*now*/, const control::Member& /*member*/) {}
  virtual bool EndIsKnown(const control::Member& /*member*/) const { return false; }
  // Call if this launcher was suspended: recorded times then do not show which agents are silent.
  virtual void OnLateTick(Time /*now*/) {}
  // Tells the job the heartbeat interval of the agents.
  virtual void NoteHeartbeat(std::chrono::milliseconds /*beat*/) {}
  // Hooks for the first world: when it starts, whether all have loaded, when the gate opens.
  virtual void NoteStart() {}
  virtual bool AllLoaded() { return true; }
  virtual void NoteOpenGate(Time now) = 0;
  // Hooks for the end of a world, in this order. NoteStop() is called only if its ranks ran.
  virtual void NoteStop(Time /*now*/, const char* /*word*/, const Worker* /*whose*/) {}
  virtual void ForgetChange(bool /*ranks_ran*/) {}
  virtual void NoteWorldOver() {}
  // Return whether a world of an earlier launcher may still run, and on which ordered Pods.
  virtual std::set<std::string> Unaccounted() const { return {}; }
  virtual bool ReportsPending(Time /*now*/) const { return false; }
  virtual bool AnotherWorldMayRun(Time /*now*/) const { return false; }
  // Returns when a first world may start: at once if the result is not after `now`.
  virtual Time MayStartAt(Time now) const { return now; }
  // Parts of the status.
  virtual std::string WorldText() const = 0;
  virtual std::string PausedBecause() const { return ""; }
  virtual bool IsProposed(const std::string& /*pod_uid*/) const { return false; }
  // Returns one Pod of the world for each build (set of program versions) that the Pods run.
  virtual std::vector<std::string> Builds() const { return {}; }
  virtual std::vector<control::Straggler> Stragglers(Time /*now*/) const { return {}; }

  // Handle messages from agents. These handlers are the same for ElasticJob and DirectJob.
  void On(Time now, Worker& worker, const control::AgentReady& ready);
  void On(Time now, Worker& worker, const control::DataCacheProgress& progress);
  void On(Time now, Worker& worker, const control::Heartbeat& heartbeat);
  void On(Time now, Worker& worker, const control::SlotAttached& attached);
  void On(Time now, Worker& worker, const control::AgentLeaving& leaving);
  void On(Time now, Worker& worker, const control::StoreSet& set);
  void On(Time now, Worker& worker, const control::StoreGet& get);
  void On(Time now, Worker& worker, const control::RankProgress& progress);
  void On(Time now, Worker& worker, const control::WorldReport& report);
  void On(Time now, Worker& worker, const control::SlotOutput& output);
  void On(Time now, Worker& worker, const control::RankProtection& protection);
  void OnRestartedAgent(Time now, Worker& worker);
  void Answer(const Worker& worker, bool refused_before,
              const std::vector<RendezvousStore::Answer>& answers);

  void Send(const Worker& worker, const control::Message& message);
  void SendToPods(const std::set<std::string>& pod_uids, const control::Message& message);
  void SendWorld(std::optional<control::ChangeEpoch> difference);
  control::StartEpoch StartOfWorld() const {
    return {world_.epoch(), startup_.cohort(), world_.members(), world_.full_size()};
  }
  // Returns the message that tells agents to end their ranks of the newest world.
  control::StopEpoch StopWorld() const {
    return {world_.epoch(), static_cast<int>(options_.stop_grace.count())};
  }
  control::Welcome MakeWelcome() const;
  void SendHeartbeats();
  std::chrono::milliseconds Heartbeat() const;

  // Handles lost workers (worker_loss.cc).
  void JudgeSilence(Time now);
  void MarkDead(Time now, Worker& worker, const std::string& cause, const std::string& reason);
  void NoteLoss(Time now, const Worker& worker, const std::string& cause, Time last_sign);

  // Starts the first world and ends worlds (job_world.cc).
  bool InOrder(const std::string& pod_uid) const;
  std::vector<std::string> ReadyInRankOrder() const;
  // Returns the size of the largest allowed world of at most `workers` workers. Others stand by.
  int SizeOfWorld(std::size_t workers) const;
  // Returns the number of ranks in a world with all requested workers; 0: not known yet.
  int FullSize() const;
  bool AllReady(const std::vector<std::string>& ready) const;
  bool PartialStartDue(Time now, std::size_t ready) const;
  Time LastFilled() const;
  bool WaitsForOlderWorld(Time now) const;
  void JudgeFaults(Time now);
  std::string VersionOf(const std::string& pod_uid, const std::string& program) const;
  std::string FaultsText(const std::vector<const Worker*>& faulty) const;
  std::string MixedText(const std::vector<std::string>& pod_uids) const;
  void AddBuild(const std::string& pod_uid, std::vector<std::string>& builds) const;
  bool SameBuild(const std::string& pod_uid, const std::string& other) const;
  std::string UnfitText(const std::string& pod_uid, const std::vector<std::string>& builds) const;
  std::vector<std::string> ProgramsToMatch() const;
  // Chooses whether mpirun or the agents start the ranks, and how mpirun reaches the workers
  // (job_starter.cc).
  void LetAgentsStart();
  void ChooseStarter(const Worker& worker);
  bool RunsCommands(const Worker& worker) const;
  void TakeFaults(Worker& worker);
  bool StarterKnown() const { return agents_start_ || !openmpi_version_.empty(); }
  void TryStart(Time now);
  void Start(Time now, const std::vector<std::string>& pod_uids);
  void TryOpenGate(Time now);
  void OpenGate(Time now);
  void JudgeMpirun(Time now);
  bool StopIfNoLongerOrdered(Time now);
  // `cause` is for messages, `word` for the recovery record; `whose` is the worker to blame.
  void Stop(Time now, const std::string& cause, const char* word = control::kCauseWorldChanged,
            const Worker* whose = nullptr);
  void FinishStopping(Time now);
  bool AllMembersReportedSince(Time since) const;

  // Ends the job (job_end.cc).
  void FailBy(Time now, const control::RankExit& exit);
  std::set<std::string> PodsWithReleasedRanks() const;
  void FinishIfReleased(Time now);
  std::set<std::string> PodsLostAfterTraining() const;
  void Succeed(Time now);
  void Fail(Time now, const Failure& failure);
  void End(Time now, const control::Verdict& verdict, int exit_code);

  // Build parts of the status: reports and texts (job_status.cc).
  control::WorkerReport ReportOf(const std::string& pod_uid,
                                 const std::vector<std::string>& builds) const;
  std::string WaitingForAgentsText(Time now) const;
  std::string AfterTrainingText() const;
  std::string MissingText() const;
  std::string FillingText() const;
  std::string RankText(const control::RankExit& exit) const;
  std::string NameOf(const std::string& pod_uid) const;  // for example "digits-worker-1 (node2)"
  std::string NamesOf(const std::set<std::string>& pod_uids) const;
  std::string SlotText(const Slot& slot) const;
  // Returns the number of ranks in the world, counting every rank of each process.
  int Ranks() const { return world_.size() * options_.ranks_per_process; }

  const CoordinatorOptions options_;
  std::string openmpi_version_;  // version of this launcher's mpirun; empty: none or not known
  bool agents_start_ = false;    // agents, not mpirun, start the ranks
  bool through_agents_ = false;  // mpirun reaches the workers through agents, not over ssh
  Actions actions_;              // the actions of the current event

  control::LauncherPhase phase_ = control::LauncherPhase::kWaitingForOrder;
  bool unsettled_ = false;  // an event happened after the last Advance()
  std::optional<control::Order> order_;
  std::set<std::string> ordered_;              // Pods that the order names
  std::map<std::string, Time> left_order_at_;  // when recently ordered Pods left the order
  WorkerTable workers_;
  std::map<std::string, std::size_t> seniority_;  // Pod → position by age in the newest epoch
  std::string last_change_;                       // why the last epoch ended
  int64_t epochs_run_ = 0;                        // number of epochs that ran
  int64_t highest_number_ = 0;                    // highest epoch number seen so far
  Time waiting_since_{};
  Time last_tick_{};
  int64_t tick_ = 0;
  std::optional<Time> first_hello_at_;
  std::optional<Time> fault_seen_;

  // The newest world. It is set by Start() or when its StartEpoch is sent, and lasts until the next
  // StartEpoch or the end of Stop().
  CurrentWorld world_;
  Startup startup_;
  Time started_at_{};
  std::map<Slot, ReportedExit> exits_;
  bool nothing_trained_ = false;     // rank 0 reported that it trained no step
  std::optional<Time> released_at_;  // when training ended, or a rank ended after it
  Time stop_deadline_{};
  RendezvousStore store_;
  std::optional<control::Progress> progress_;

  RecoveryWatch recovery_;
  CheckpointTracker checkpoints_;
  FailurePolicy failures_;
};

}  // namespace ringmaster::launcher
