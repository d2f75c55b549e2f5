// Takes over the world of a previous launcher. Agents report that world; if all members still run,
// the world continues unchanged. Ranks get no messages until the state of each member is known.

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "worker/launcher/coordinator/elastic_job.h"

namespace ringmaster::launcher {

using control::LauncherPhase;
using control::Member;

// Returns whether an agent may still report a world of a previous launcher. If so, a first world
// must not start yet. Agents have `adopt_within` to report.
bool ElasticJob::ReportsPending(Time now) const {
  if (!first_hello_at_) return false;
  if (now - *first_hello_at_ >= options_.adopt_within) return false;
  bool world_existed = false;
  bool all_repeated = true;
  for (const auto& [pod_uid, worker] : workers_) {
    if (worker.hello.highest_epoch > known_epoch_) world_existed = true;
    if (!worker.Fenced() && (!worker.connection || !worker.repeated)) all_repeated = false;
  }
  // The agent of a Pod of an earlier order may be in a world of a previous launcher.
  for (const auto& [pod_uid, since] : left_order_at_) {
    const Worker* worker = workers_.Find(pod_uid);
    const bool heard =
        worker != nullptr && (worker->Fenced() || worker->repeated ||
                              (worker->connection && worker->hello.highest_epoch.number == 0));
    if (options_.term > 1 && !heard) return true;
  }
  return world_existed && !all_repeated;
}

// Returns the ordered Pods that may still be in a world of an earlier launcher. If a new world
// started now, two worlds might train at the same time.
std::set<std::string> ElasticJob::Unaccounted() const {
  std::set<std::string> pod_uids;
  // If this launcher formed the newest world, it knows that all worlds have ended.
  const bool world_existed =
      !formed_here_ &&
      (options_.term > 1 || std::any_of(workers_.begin(), workers_.end(), [](const auto& entry) {
         return entry.second.hello.highest_epoch.number > 0;
       }));
  for (const control::DesiredWorker& wanted : order_->workers) {
    const Worker* worker = workers_.Find(wanted.pod_uid);
    if (worker != nullptr && worker->Fenced()) continue;
    const bool heard = worker != nullptr && worker->connection.has_value();
    const bool may_report = heard && worker->hello.highest_epoch > known_epoch_;
    const bool just_dialled = heard && !worker->ready && world_existed;
    if ((may_report || just_dialled) && !worker->repeated) pod_uids.insert(wanted.pod_uid);
    // A Pod without a node does not run anything.
    if (!heard && world_existed && !wanted.node.empty()) pod_uids.insert(wanted.pod_uid);
  }
  return pod_uids;
}

bool ElasticJob::ShouldAdopt() const { return order_ && takeover_.epoch() > known_epoch_; }

bool ElasticJob::MembersPending() const {
  return takeover_.MembersPending(known_epoch_, workers_.connections());
}

void ElasticJob::AskForMembers(Time now) {
  if (!MembersPending()) return;
  const auto asked = takeover_.AskNow(now, workers_.connections(), options_.ask_again);
  if (asked) actions_.push_back(SendTo{*asked, control::TellWorld{takeover_.newest()}});
}

void ElasticJob::BeginAdopting(Time now) {
  LogInfo("Found a running world", {{"term", takeover_.epoch().term},
                                    {"epoch", takeover_.epoch().number},
                                    {"ranks", takeover_.members().size()}});
  change_ = {};
  phase_ = LauncherPhase::kAdopting;
  takeover_.Begin(now);
  AdvanceAdopting(now);
}

void ElasticJob::AdvanceAdopting(Time now) {
  bool waits = MembersPending();
  std::vector<Member> gone;
  std::set<std::string> unreported;
  for (const Member& member : takeover_.members()) {
    Worker& worker = workers_.Entry(member.pod_uid);
    if (worker.hello.pod_uid.empty()) {
      worker.hello.pod_uid = member.pod_uid;
      worker.hello.pod = member.pod;
      worker.hello.node = member.node;
    }
    const std::optional<bool> runs = takeover_.Runs(member);
    if (worker.Fenced()) continue;
    // The agent reports exits of ranks after its members, so reports of exits may still follow.
    const bool more_to_come = worker.connection && !worker.repeated;
    if (more_to_come) waits = true;
    if (ended_.contains(KeyOf(member))) continue;
    if (runs.has_value() ? !*runs : worker.connection && worker.repeated) {
      gone.push_back(member);
    } else if (!runs.has_value()) {
      waits = true;
      if (!worker.connection) unreported.insert(member.pod_uid);
    }
  }
  const auto limit = takeover_.MostReported() ? options_.adopt_rest_within : options_.adopt_within;
  if (waits && now - takeover_.began_at() < limit) return;
  for (const Member& member : gone) ended_.insert(IdOf(member));
  for (const std::string& pod_uid : unreported) workers_.At(pod_uid).standing = Standing::kSilent;
  Adopt(now);
}

// Records whether a rank of a world that another launcher formed has the training state. A rank has
// the state if it has applied a step; otherwise it may not have received the state yet.
void ElasticJob::NoteState(const Member& member, const control::RankPosition& position) {
  if (position.step > 0) {
    stateful_.insert(IdOf(member));
  } else {
    stateful_.erase(IdOf(member));
    all_stateful_ = false;
  }
}

// Assumes that the ranks of silent agents have the training state. Unless another rank also has it,
// the next world does not start before these agents report or are known to be dead.
void ElasticJob::NoteSilentState() {
  for (const Member& member : world_.members()) {
    const Worker& worker = workers_.At(member.pod_uid);
    if (worker.Silent()) stateful_.insert(IdOf(member));
  }
}

void ElasticJob::Adopt(Time now) {
  known_epoch_ = takeover_.epoch();
  std::vector<Member> members = takeover_.members();
  for (std::size_t i = 0; i < members.size(); ++i) members[i].rank = static_cast<int>(i);
  ReplaceWorld(CurrentWorld(known_epoch_, std::move(members), FullSize()));
  formed_here_ = false;
  stateful_.clear();
  exits_.clear();
  done_.clear();
  released_at_.reset();
  store_.Reset(world_.epoch(), world_.size());
  seniority_.clear();
  for (const Member& member : world_.members())
    seniority_.try_emplace(member.pod_uid, seniority_.size());
  ++epochs_run_;
  phase_ = LauncherPhase::kRunning;
  WatchWorld(now);
  // Handle exits of processes first: the last RankDone releases the ranks only if none has failed.
  for (const Member& member : world_.members()) {
    const Worker& worker = workers_.At(member.pod_uid);
    const auto process = worker.processes.find(member.slot);
    if (process == worker.processes.end() || !process->second.exit ||
        process->second.exit->start != member.start) {
      continue;
    }
    control::RankExit exit = *process->second.exit;
    exit.rank = member.rank;
    exits_.try_emplace(
        {member.pod_uid, member.slot},
        ReportedExit{.exit = exit, .arrival = exits_.size(), .leaving = worker.leaving});
  }
  for (const auto& [key, message] : takeover_.TakeEarly()) {
    Worker* worker = workers_.Find(std::get<0>(key));
    std::visit(
        [&](const auto& typed) {
          if constexpr (requires { On(now, *worker, typed); }) {
            if (worker != nullptr) On(now, *worker, typed);
          }
        },
        message);
  }
  if (takeover_.Released() && !released_at_) ReleaseAgain(now);
  NoteSilentState();
  bool undisturbed = takeover_.StartedEverywhere();
  for (const Member& member : world_.members()) {
    const Worker& worker = workers_.At(member.pod_uid);
    if (EndedWell(member)) continue;
    const auto exit = exits_.find({member.pod_uid, member.slot});
    if (exit != exits_.end() && !released_at_) failures_.Fail(now, exit->second.exit);
    // If an agent was asked to prepare a later epoch, its ranks are no longer in this epoch.
    const bool asked_to_leave =
        worker.hello.highest_epoch > world_.epoch() || worker.prepared > world_.epoch();
    if (Gone(member) || asked_to_leave) undisturbed = false;
    if (Gone(member) && !released_at_)
      NoteLoss(now, worker, worker.Silent() ? control::kCauseSilence : control::kCauseRankExited,
               now);
  }
  LogInfo("Took over a world", {{"epoch", world_.epoch().number},
                                {"ranks", world_.size()},
                                {"undisturbed", undisturbed ? "yes" : "no"}});
  if (!undisturbed && !released_at_ && !AllEndedWell()) {
    JudgeFailures(now);
    if (!failures_.MustFail() && phase_ == LauncherPhase::kRunning) Form(now);
    return;
  }
  Advance(now);
}

// A member that has not reported, or whose agent was restarted, had completed the last step, too.
void ElasticJob::ReleaseAgain(Time now) {
  for (const Member& member : world_.members()) {
    done_.insert(member.rank);
    if (ended_.contains(KeyOf(member))) exits_.try_emplace({member.pod_uid, member.slot});
  }
  Release(now);
  SendToPods(world_.pods(), control::Release{world_.epoch()});
}

bool ElasticJob::AnotherWorldMayRun(Time now) const {
  return ReportsPending(now) || MembersPending() || !Unaccounted().empty();
}

}  // namespace ringmaster::launcher
