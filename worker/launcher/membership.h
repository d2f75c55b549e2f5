#pragma once

// What the launcher decides: who is a member, when mpirun runs, when the start gate opens, what a
// loss means, how the job ended. A pure state machine: events in, actions out, time from outside;
// no I/O and no threads, so that every interleaving can be tested. launcher.h carries its actions
// out.
//
//   WaitingForOrder → WaitingForAgents → Starting (mpirun, attaches) → Running → Finished
//                          ▲                 └────── loss, leave, new order ──────┘
//                          └───────────────── Stopping ◄─┘
// The header is longer than most: one state, however many files decide on it.
//
// Sources: membership.cc (events), membership_world.cc (forming and ending worlds), judgement.cc
// (how the job ended), membership_status.cc (words for people).

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/control/launcher_api.h"
#include "common/control/messages.h"
#include "worker/launcher/membership_actions.h"
#include "worker/launcher/rendezvous_store.h"

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
  // The first line of a connection.
  Actions OnHello(Time now, ConnectionId connection, const control::AgentHello& hello);
  // Any later line. One that an agent never sends ends its connection.
  Actions OnMessage(Time now, ConnectionId connection, const control::Message& message);
  Actions OnClosed(Time now, ConnectionId connection);
  Actions OnMpirunExited(Time now, int64_t cohort, const MpirunExit& exit);
  // At least every `heartbeat`.
  Actions OnTick(Time now);
  // Our own process is asked to end: ranks are stopped, no verdict.
  Actions OnTerminate(Time now);
  // We cannot go on: a verdict.
  Actions OnOwnFailure(Time now, const std::string& reason, const std::string& message);

  control::LauncherStatus Status(Time now) const;
  control::LauncherPhase phase() const { return phase_; }
  const control::Epoch& epoch() const { return epoch_; }

 private:
  // A worker Pod that has said hello, for as long as the launcher lives.
  struct Worker {
    control::AgentHello hello;
    std::optional<ConnectionId> connection;
    std::optional<control::AgentReady> ready;  // of this connection
    Time last_heard{};
    Time disconnected_at{};
    Time ready_since{};
    bool leaving = false;
    bool lost = false;  // fenced: never again
  };
  using Slot = std::pair<std::string, int>;  // Pod UID, slot
  struct Attached {
    int mpi_rank = 0;
    int mpi_world_size = 0;
  };
  struct ReportedExit {
    control::RankExit exit;
    std::size_t arrival = 0;  // its place among the reports of this epoch
  };

  // Events (membership.cc).
  void On(Time now, Worker& worker, const control::AgentReady& ready);
  void On(Time now, Worker& worker, const control::Heartbeat& heartbeat);
  void On(Time now, Worker& worker, const control::SlotAttached& attached);
  void On(Time now, Worker& worker, const control::RankExited& exited);
  void On(Time now, Worker& worker, const control::RankProgress& progress);
  void On(Time now, Worker& worker, const control::RankDone& done);
  void On(Time now, Worker& worker, const control::AgentLeaving& leaving);
  void On(Time now, Worker& worker, const control::StoreSet& set);
  void On(Time now, Worker& worker, const control::StoreGet& get);
  void Welcome(const Worker& worker);
  void Advance(Time now);  // whatever has become possible
  void JudgeSilence(Time now);
  void LoseWorker(Worker& worker, const std::string& reason);
  void Send(const Worker& worker, const control::Message& message);
  void Answer(const std::vector<RendezvousStore::Answer>& answers);

  // Worlds (membership_world.cc).
  bool InOrder(const std::string& pod_uid) const;
  bool IsReady(const Worker& worker) const;
  bool IsMember(const std::string& pod_uid) const;
  std::vector<std::string> ReadyInRankOrder() const;
  bool EveryoneReady(const std::vector<std::string>& ready) const;
  void TryStart(Time now);
  void Start(Time now, const std::vector<std::string>& pod_uids);
  void OpenGate(Time now);
  void ReformIfNeeded(Time now);
  void Stop(Time now, const std::string& cause);
  void FinishStopping(Time now);
  int WorldSize() const { return static_cast<int>(members_.size()); }

  // How the job ended (judgement.cc).
  void JudgeFaults(Time now);
  std::string MixedText(const std::vector<std::string>& pod_uids) const;
  void JudgeAttached(Time now);
  void JudgeMpirun(Time now);
  void JudgeExits(Time now);
  bool EveryMemberHeardSince(Time since) const;
  std::string MismatchText() const;
  void FinishIfReleased(Time now);
  void Succeed();
  void Fail(const std::string& reason, const std::string& message, int exit_code,
            const std::optional<control::RankExit>& first = std::nullopt);
  void End(const control::Verdict& verdict, int exit_code);

  // Words (membership_status.cc).
  std::string WaitingText(Time now) const;
  std::string NameOf(const std::string& pod_uid) const;  // "digits-worker-1 (node2)"
  std::string SlotText(const Slot& slot) const;

  const MembershipOptions options_;
  std::string openmpi_version_;  // of this launcher's mpirun; empty: not known yet
  Actions actions_;              // collected during one event

  control::LauncherPhase phase_ = control::LauncherPhase::kWaitingForOrder;
  std::optional<control::Order> order_;
  std::map<std::string, Worker> workers_;            // by Pod UID
  std::map<ConnectionId, std::string> connections_;  // accepted hellos → Pod UID
  std::vector<std::string> seniority_;               // Pods of the newest epoch, oldest first
  std::string last_change_;                          // why the last epoch ended
  int64_t epochs_run_ = 0;                           // gates opened
  int failed_starts_ = 0;                            // of mpirun, since the last open gate
  Time waiting_since_{};
  Time last_tick_{};
  std::optional<Time> fault_seen_;

  // The current attempt: from Start to the end of Stop.
  control::Epoch epoch_;
  int64_t cohort_ = 0;
  std::vector<control::Member> members_;  // by rank
  std::set<std::string> member_pods_;
  std::map<Slot, Attached> attached_;
  std::string
      attach_fault_;  // a second attach to a slot, or one from elsewhere: the whole set is wrong
  std::optional<Time> mismatch_at_;
  Time started_at_{};
  bool mpirun_running_ = false;
  std::optional<MpirunExit> mpirun_exit_;
  Time mpirun_exited_at_{};
  std::map<Slot, ReportedExit> exits_;
  std::optional<Time> first_failure_at_;
  std::set<int> done_;  // ranks past their last step
  std::optional<Time> released_at_;
  Time stop_deadline_{};
  RendezvousStore store_;
  std::optional<control::Progress> progress_;
};

}  // namespace ringmaster::launcher
