#pragma once

// A job whose ranks implement the rank protocol. Ranks keep their process, model and state when the
// world changes.
//
//   Starting → Running ⇄ Forming ⇄ Paused        Adopting (a world runs already) → Running
//
// Members can be lost, join and leave without a restart of the others. Owned by Coordinator.
//
// Sources: elastic_job.cc (reports of ranks), elastic_change.cc (transitions between worlds),
// elastic_members.cc (members of the next world), elastic_stall.cc (ranks that hang or are slow),
// elastic_takeover.cc (the world of an earlier launcher), elastic_end.cc (the end of the job),
// elastic_status.cc (status text).

#include <map>
#include <set>
#include <string>
#include <vector>

#include "worker/launcher/coordinator/job.h"
#include "worker/launcher/model/change_progress.h"
#include "worker/launcher/model/cooldown.h"
#include "worker/launcher/model/next_world.h"
#include "worker/launcher/model/stall_watch.h"
#include "worker/launcher/model/straggler_watch.h"
#include "worker/launcher/model/takeover.h"

namespace ringmaster::launcher {

class ElasticJob final : public Job {
 public:
  explicit ElasticJob(const CoordinatorOptions& options);

  JobTimes Times(Time now) const override;

 private:
  using Job::On;

  // Handles reports from ranks (elastic_job.cc).
  bool HandleMessage(Time now, Worker& worker, const control::Message& message) override;
  bool CanWait(const control::Message& message) const override;
  void On(Time now, Worker& worker, const control::RankReady& ready);
  void On(Time now, Worker& worker, const control::RankExited& exited);
  void On(Time now, Worker& worker, const control::RankAtBoundary& boundary);
  void On(Time now, Worker& worker, const control::RankBroken& broken);
  void On(Time now, Worker& worker, const control::EpochAccepted& accepted);
  void On(Time now, Worker& worker, const control::WorldReport& report);
  void On(Time now, Worker& worker, const control::CheckpointWritten& written);
  void On(Time now, Worker& worker, const control::CheckpointDone& done);
  void On(Time now, Worker& worker, const control::RankBegan& began);
  void On(Time now, Worker& worker, const control::RankPositions& positions);
  void On(Time now, Worker& worker, const control::RankStack& stack);
  void AskForCheckpoint(Time now);
  bool WorldUnknown() const;
  // If the world is not known yet, stores the report and returns true.
  template <typename OfRank>
  bool KeptForLater(const Worker& worker, const OfRank& message) {
    if (!WorldUnknown()) return false;
    int rank = -1;  // -1: the report is about all ranks of the worker
    if constexpr (requires { message.rank; }) rank = message.rank;
    takeover_.Keep(worker.hello.pod_uid, rank, message);
    return true;
  }
  void NoteReplaced(Time now, const Worker& worker, int slot, const std::string& start);
  void JudgeEarlyExits(Time now);
  void JudgeFailures(Time now);

  // Ends the job (elastic_end.cc).
  void On(Time now, Worker& worker, const control::RankDone& done);
  bool EndedWell(const control::Member& member) const;
  bool AllEndedWell() const;
  bool AnyMemberLost() const;
  void Release(Time now);
  void AdvanceReleased(Time now);
  std::string EndOfTrainingText(Time now) const;

  // Overrides of Job's functions (elastic_job.cc).
  void Advance(Time now) override;
  void Welcome(Worker& worker) override;
  void LoseWorker(Time now, Worker& worker, const std::string& cause,
                  const std::string& reason) override;
  void Fence(Worker& worker) override;
  void NoteCommitted(int64_t step) override;
  void NoteEnd(Time now, const control::Member& member) override;
  bool EndIsKnown(const control::Member& member) const override;
  void OnLateTick(Time now) override;
  void NoteHeartbeat(std::chrono::milliseconds beat) override;
  void NoteStart() override;
  bool AllLoaded() override;
  void NoteOpenGate(Time now) override;
  void ForgetChange(bool ranks_ran) override;
  void NoteWorldOver() override;

  // Moves from one world to the next (elastic_change.cc).
  bool WorldCanChange() const override;
  void AdvanceWorld(Time now);
  void AdvanceForming(Time now);
  void BeginSwitch(Time now);
  void NoteLeavers(Time now);
  bool AllAtBoundary(Time now) const;
  void JudgeBroken(Time now);
  void CountBrokenWorld(Time now);
  control::RankExit FailureOf(const control::Member& member, const std::string& why) const;
  void Exclude(Time now, const control::Member& member, const std::string& why, const char* cause);
  template <typename TakesPart>
  bool QuorumOf(TakesPart takes_part) const;
  bool StateReachable(const std::vector<control::Member>& next) const;
  std::string PauseReason(const std::vector<control::Member>& next) const;
  bool NoMembersRemain(const std::vector<control::Member>& next) const;
  void Form(Time now);
  void Prepare(Time now, const std::vector<control::Member>& next);
  void DropUnresponsive(Time now);
  void StartProposal(Time now);
  void ReplaceWorld(CurrentWorld world);

  // Chooses the members of the next world (elastic_members.cc).
  bool Gone(const control::Member& member) const;
  bool KnownDead(const std::string& pod_uid) const;
  bool Leaving(const std::string& pod_uid) const;
  std::vector<control::Member> Survivors() const;
  std::size_t SurvivingPods() const;
  std::vector<control::Member> Joiners(Time now,
                                       const std::vector<control::Member>& survivors) const;
  bool MayHaveJoiners() const;
  std::vector<std::string> BuildsOf(const std::vector<control::Member>& members) const;
  std::vector<control::Member> Next(Time now, bool leavers_go) const;
  bool ChangeWanted(Time now) const;

  // Finds ranks that hang or are slow (elastic_stall.cc).
  void WatchWorld(Time now);
  void AddStack(const Worker& worker, control::RankExit& exit) const;
  bool JudgeStall(Time now);
  void RepeatEndsOfStalledRanks(const Worker& worker);
  void NoteConnectFailures(Time now);
  void WriteStall(const std::optional<Time>& since);
  void ExcludeUnkillable(Time now);

  // Takes over the world of a previous launcher (elastic_takeover.cc).
  std::set<std::string> Unaccounted() const override;
  bool ReportsPending(Time now) const override;
  bool AnotherWorldMayRun(Time now) const override;
  bool ShouldAdopt() const;
  bool MembersPending() const;
  void AskForMembers(Time now);
  void BeginAdopting(Time now);
  void AdvanceAdopting(Time now);
  void Adopt(Time now);
  void ReleaseAgain(Time now);
  void NoteSilentState();
  void NoteState(const control::Member& member, const control::RankPosition& position);

  // Builds status texts (elastic_status.cc).
  std::string WorldText() const override;
  std::string PausedText() const;
  std::string PausedBecause() const override;
  bool IsProposed(const std::string& pod_uid) const override;
  std::vector<std::string> Builds() const override;
  std::vector<control::Straggler> Stragglers(Time now) const override;

  control::Epoch known_epoch_;  // the highest epoch that is known to have started
  bool formed_here_ = false;    // whether this launcher formed the newest world
  MemberIds stateful_;          // members that have, or may have, the training state
  bool all_stateful_ = false;   // whether all members have the training state
  MemberIds ended_;             // members whose processes have certainly ended
  std::set<int> done_;          // ranks that finished their last step
  ChangeProgress change_;
  bool reformed_at_once_ =
      false;                     // whether a world was formed at once since the last committed step
  int same_world_attempts_ = 0;  // consecutive worlds with these members and no committed step
  StallWatch stall_watch_;
  StragglerWatch straggler_watch_;
  struct Stalled {
    Time asked_at{};     // when the agent was asked to end the rank
    Time still_since{};  // when the world stopped making progress
    control::EndStalledRank request;
  };
  std::map<MemberId, Stalled> stalled_;  // members that block this world and must end
  std::optional<Time> written_stall_;    // when the last logged stall began
  Takeover takeover_;
  Cooldown cooldown_;
};

}  // namespace ringmaster::launcher
