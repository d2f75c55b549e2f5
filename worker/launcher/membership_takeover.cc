// The world that a launcher before us left: agents report it, and if all of its members still run
// it goes on without noticing us. No message reaches a rank before everybody is accounted for.

#include <algorithm>

#include "common/base/log.h"
#include "worker/launcher/membership.h"

namespace ringmaster::launcher {

using control::LauncherPhase;
using control::Member;

// Some agent has accepted an epoch that we do not know: before a first world starts, whoever may
// have a world to report has had the time to.
bool Membership::ReportsMayCome(Time now) const {
  if (!options_.managed || !first_hello_at_) return false;
  if (now - *first_hello_at_ >= options_.adopt_within) return false;
  bool world_existed = false;
  bool all_repeated = true;
  for (const auto& [pod_uid, worker] : workers_) {
    if (worker.hello.highest_epoch.number > 0 && worker.hello.highest_epoch > known_epoch_) {
      world_existed = true;
    }
    if (!worker.lost && (!worker.connection || !worker.repeated)) all_repeated = false;
  }
  // Whoever an order before this one named may be in a world of a launcher before us.
  for (const auto& [pod_uid, since] : unwanted_since_) {
    const auto worker = workers_.find(pod_uid);
    const bool heard =
        worker != workers_.end() &&
        (worker->second.lost || worker->second.repeated ||
         (worker->second.connection && worker->second.hello.highest_epoch.number == 0));
    if (options_.term > 1 && !heard) return true;
  }
  return world_existed && !all_repeated;
}

bool Membership::ShouldAdopt() const { return order_ && adoption_.epoch() > known_epoch_; }

// Somebody has told of a newer world, and not yet who is in it.
bool Membership::AwaitsMembers() const {
  return adoption_.newest() > known_epoch_ && adoption_.newest() > adoption_.epoch() &&
         std::any_of(connections_.begin(), connections_.end(),
                     [&](const auto& entry) { return adoption_.Knows(entry.second); });
}

// One of those who know is asked, another one where that does not answer.
void Membership::AskForMembers(Time now) {
  if (!AwaitsMembers()) return;
  const bool asked =
      connections_.contains(asked_for_members_) && now - asked_for_members_at_ < options_.ask_again;
  if (asked) return;
  const auto knows = [&](const auto& entry) { return adoption_.Knows(entry.second); };
  auto next = std::find_if(connections_.upper_bound(asked_for_members_), connections_.end(), knows);
  if (next == connections_.end()) {
    next = std::find_if(connections_.begin(), connections_.end(), knows);
  }
  asked_for_members_ = next->first;
  asked_for_members_at_ = now;
  actions_.push_back(SendTo{next->first, control::TellWorld{adoption_.newest()}});
}

void Membership::BeginAdopting(Time now) {
  LogInfo("Heard of a world that runs already", {{"term", adoption_.epoch().term},
                                                 {"epoch", adoption_.epoch().number},
                                                 {"ranks", adoption_.members().size()}});
  ForgetWorldChanges();
  phase_ = LauncherPhase::kAdopting;
  adopting_since_ = now;
  AdvanceAdopting(now);
}

void Membership::AdvanceAdopting(Time now) {
  bool waits = AwaitsMembers();
  std::vector<Member> gone;
  std::set<std::string> unheard;
  for (const Member& member : adoption_.members()) {
    Worker& worker = workers_[member.pod_uid];
    if (worker.hello.pod_uid.empty()) {
      worker.hello.pod_uid = member.pod_uid;
      worker.hello.pod = member.pod;
      worker.hello.node = member.node;
    }
    const std::optional<bool> runs = adoption_.Runs(member);
    if (worker.lost || worker.dead) continue;
    // How a rank ended is said after who runs.
    const bool more_to_come = worker.connection && !worker.repeated;
    if (more_to_come) waits = true;
    if (ended_.contains(KeyOf(member))) continue;
    if (runs.has_value() ? !*runs : worker.connection && worker.repeated) {
      gone.push_back(member);
    } else if (!runs.has_value()) {
      waits = true;
      if (!worker.connection) unheard.insert(member.pod_uid);
    }
  }
  const auto limit = adoption_.HeardFromMost() ? options_.adopt_rest_within : options_.adopt_within;
  if (waits && now - adopting_since_ < limit) return;
  for (const Member& member : gone) ended_.insert(IdOf(member));
  for (const std::string& pod_uid : unheard) workers_.at(pod_uid).silent = true;
  Adopt(now);
}

// A rank of a world that we did not form: one that has applied a step holds a state; one that has
// not may be a joiner that nobody has levelled yet.
void Membership::NoteState(const Member& member, const control::RankPosition& position) {
  if (position.step > 0) {
    stateful_.insert(IdOf(member));
  } else {
    stateful_.erase(IdOf(member));
    all_stateful_ = false;
  }
}

// Whoever is silent may be the only one with a state: unless somebody else has it, no world begins
// from nothing before they are heard, or known to be dead.
void Membership::NoteSilentState() {
  for (const Member& member : members_) {
    const Worker& worker = workers_.at(member.pod_uid);
    if (worker.silent && !worker.dead) stateful_.insert(IdOf(member));
  }
}

void Membership::Adopt(Time now) {
  epoch_ = known_epoch_ = adoption_.epoch();
  std::vector<Member> members = adoption_.members();
  for (std::size_t i = 0; i < members.size(); ++i) members[i].rank = static_cast<int>(i);
  SetMembers(std::move(members));
  formed_here_ = false;
  stateful_.clear();
  exits_.clear();
  done_.clear();
  released_at_.reset();
  store_.Reset(epoch_);
  seniority_.clear();
  for (const Member& member : members_) seniority_.try_emplace(member.pod_uid, seniority_.size());
  ++epochs_run_;
  phase_ = LauncherPhase::kRunning;
  WatchWorld(now);
  // Ends first: whether a RankDone is the last one needed depends on them.
  for (const Member& member : members_) {
    const Worker& worker = workers_.at(member.pod_uid);
    const auto process = worker.processes.find(member.slot);
    if (process == worker.processes.end() || !process->second.exit ||
        process->second.exit->start != member.start) {
      continue;
    }
    control::RankExit exit = *process->second.exit;
    exit.rank = member.rank;
    exits_.try_emplace({member.pod_uid, member.slot}, ReportedExit{exit, exits_.size()});
  }
  for (const auto& [key, message] : std::exchange(early_, {})) {
    const auto worker = workers_.find(std::get<0>(key));
    std::visit(
        [&](const auto& typed) {
          if constexpr (requires { On(now, worker->second, typed); }) {
            if (worker != workers_.end()) On(now, worker->second, typed);
          }
        },
        message);
  }
  NoteSilentState();
  bool undisturbed = adoption_.StartedEverywhere();
  for (const Member& member : members_) {
    const Worker& worker = workers_.at(member.pod_uid);
    if (EndedWell(member)) continue;
    const auto exit = exits_.find({member.pod_uid, member.slot});
    if (exit != exits_.end() && !released_at_) NoteFailure(now, exit->second.exit);
    // Ranks that were told to leave this epoch are no longer in it.
    const bool told_to_leave = worker.hello.highest_epoch > epoch_ || worker.prepared > epoch_;
    if (Gone(member) || told_to_leave) undisturbed = false;
    if (Gone(member) && !released_at_)
      NoteLoss(now, worker, worker.silent ? "Silence" : "RankExited", now);
  }
  LogInfo("Took over a world", {{"epoch", epoch_.number},
                                {"ranks", WorldSize()},
                                {"undisturbed", undisturbed ? "yes" : "no"}});
  if (!undisturbed && !released_at_ && !AllEndedWell()) {
    JudgeFailures(now);
    if (!MustFail() && phase_ == LauncherPhase::kRunning) Form(now);
    return;
  }
  Advance(now);
}

}  // namespace ringmaster::launcher
