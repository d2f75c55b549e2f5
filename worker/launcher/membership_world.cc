// The first world, which mpirun starts, and ending a world: where its members were all lost, and
// wherever a program that is not our trainer needs another one.

#include <algorithm>

#include "common/base/log.h"
#include "worker/launcher/membership.h"

namespace ringmaster::launcher {

using control::LauncherPhase;

bool Membership::InOrder(const std::string& pod_uid) const { return ordered_.contains(pod_uid); }

bool Membership::IsReady(const Worker& worker) const {
  return worker.connection && worker.ready && worker.ready->faults.empty() && !worker.leaving &&
         !worker.lost;
}

bool Membership::IsMember(const std::string& pod_uid) const {
  return member_pods_.contains(pod_uid);
}

void Membership::SetMembers(std::vector<control::Member> members) {
  members_ = std::move(members);
  member_pods_.clear();
  ranks_of_.clear();
  all_stateful_ = false;
  for (const control::Member& member : members_) {
    member_pods_.insert(member.pod_uid);
    ranks_of_[member.pod_uid].push_back(member.rank);
  }
}

const std::vector<int>& Membership::RanksOf(const std::string& pod_uid) const {
  static const std::vector<int> kNone;
  const auto found = ranks_of_.find(pod_uid);
  return found == ranks_of_.end() ? kNone : found->second;
}

const control::Member* Membership::MemberAt(const std::string& pod_uid, int slot) const {
  for (const int rank : RanksOf(pod_uid)) {
    const control::Member& member = members_[static_cast<std::size_t>(rank)];
    if (member.slot == slot) return &member;
  }
  return nullptr;
}

// Oldest first: who was in the last epoch keeps its place, the others follow by index.
std::vector<std::string> Membership::ReadyInRankOrder() const {
  std::vector<std::pair<std::pair<std::size_t, int>, std::string>> ready;
  for (const control::DesiredWorker& wanted : order_->workers) {
    const auto worker = workers_.find(wanted.pod_uid);
    if (worker == workers_.end() || !IsReady(worker->second)) continue;
    const auto senior = seniority_.find(wanted.pod_uid);
    const std::size_t place = senior == seniority_.end() ? seniority_.size() : senior->second;
    ready.push_back({{place, wanted.index}, wanted.pod_uid});
  }
  std::sort(ready.begin(), ready.end());
  // An order that names a Pod twice still means one worker.
  ready.erase(std::unique(ready.begin(), ready.end()), ready.end());
  std::vector<std::string> pod_uids;
  for (auto& [place, pod_uid] : ready) pod_uids.push_back(std::move(pod_uid));
  return pod_uids;
}

bool Membership::EveryoneReady(const std::vector<std::string>& ready) const {
  // Each of them is ordered.
  return static_cast<int>(ready.size()) >= order_->replicas && ready.size() == ordered_.size();
}

// Ordered Pods that may be in a world of a launcher before us: from a fresh one two would train
// at the same time.
std::set<std::string> Membership::Unaccounted() const {
  std::set<std::string> pod_uids;
  if (!options_.managed) return pod_uids;
  // What we formed ourselves we have seen end.
  const bool world_existed =
      !formed_here_ &&
      (options_.term > 1 || std::any_of(workers_.begin(), workers_.end(), [](const auto& entry) {
         return entry.second.hello.highest_epoch.number > 0;
       }));
  for (const control::DesiredWorker& wanted : order_->workers) {
    const auto found = workers_.find(wanted.pod_uid);
    const Worker* worker = found == workers_.end() ? nullptr : &found->second;
    if (worker != nullptr && (worker->dead || worker->lost)) continue;
    const bool heard = worker != nullptr && worker->connection.has_value();
    const bool may_report = heard && worker->hello.highest_epoch.number > 0 &&
                            worker->hello.highest_epoch > known_epoch_;
    const bool just_dialled = heard && !worker->ready && world_existed;
    if ((may_report || just_dialled) && !worker->repeated) pod_uids.insert(wanted.pod_uid);
    // A Pod without a node runs nothing.
    if (!heard && world_existed && !wanted.node.empty()) pod_uids.insert(wanted.pod_uid);
  }
  return pod_uids;
}

bool Membership::EnoughAfterAWhile(Time now, int ready) const {
  return ready >= std::max(1, order_->min_replicas) &&
         now - std::max(waiting_since_, LastFilled()) >= options_.partial_after;
}

bool Membership::IsFilling(const Worker& worker) const {
  return worker.connection && worker.filling && !worker.ready && !worker.leaving && !worker.lost;
}

// When the data cache of an ordered worker moved last, of those still being filled: who comes
// nearer is worth waiting for, who stands still is not.
Membership::Time Membership::LastFilled() const {
  Time last{};
  for (const control::DesiredWorker& wanted : order_->workers) {
    const auto worker = workers_.find(wanted.pod_uid);
    if (worker == workers_.end() || !IsFilling(worker->second)) continue;
    last = std::max(last, worker->second.filled_at);
  }
  return last;
}

// It would start with fewer, were there nobody who may train already.
bool Membership::HeldByAnOlderWorld(Time now) const {
  return phase_ == LauncherPhase::kWaitingForAgents && order_ &&
         EnoughAfterAWhile(now, static_cast<int>(ReadyInRankOrder().size())) &&
         !Unaccounted().empty();
}

void Membership::TryStart(Time now) {
  const std::vector<std::string> ready = ReadyInRankOrder();
  const int count = static_cast<int>(ready.size());
  if (count == 0 || openmpi_version_.empty()) return;
  if (!EveryoneReady(ready) && !EnoughAfterAWhile(now, count)) return;
  if (ReportsMayCome(now) || AwaitsMembers() || !Unaccounted().empty()) return;
  if (const std::string mixed = MixedText(ready); !mixed.empty()) {
    return Fail(now, control::kReasonPreflightFailed, mixed, 1);
  }
  Start(now, ready);
}

void Membership::Start(Time now, const std::vector<std::string>& pod_uids) {
  // An agent may remember an epoch that a former start of this launcher's container formed.
  epoch_ = {options_.term, ++highest_number_};
  // Agents keep attaches by cohort: it is as unique as the epoch, across starts of this container
  // too.
  cohort_ = epoch_.number;
  seniority_.clear();
  for (const std::string& pod_uid : pod_uids) seniority_.emplace(pod_uid, seniority_.size());
  mismatch_at_.reset();
  exits_.clear();
  done_.clear();
  failing_.clear();
  first_failure_at_.reset();
  must_fail_ = false;
  early_.clear();
  released_at_.reset();
  mpirun_exit_.reset();
  store_.Reset(epoch_);

  StartMpirun start{cohort_, {}, 0};
  std::vector<control::Member> members;
  for (const std::string& pod_uid : pod_uids) {
    const Worker& worker = workers_.at(pod_uid);
    const auto user = worker.ready->versions.find("user");
    start.hosts.push_back({pod_uid, worker.hello.pod, worker.ready->address, worker.ready->ssh_port,
                           options_.slots,
                           user == worker.ready->versions.end() ? "" : user->second});
    for (int slot = 0; slot < options_.slots; ++slot) {
      members.push_back({pod_uid, worker.hello.pod, worker.hello.node, worker.ready->address, slot,
                         "", static_cast<int>(members.size())});
    }
  }
  SetMembers(std::move(members));
  std::set<Slot> expected;
  for (const control::Member& member : members_) expected.insert({member.pod_uid, member.slot});
  gate_.Expect(std::move(expected));
  start.world_size = WorldSize();
  phase_ = LauncherPhase::kStarting;
  started_at_ = attached_at_ = now;
  mpirun_running_ = true;
  LogInfo("Started an epoch",
          {{"epoch", epoch_.number}, {"workers", pod_uids.size()}, {"ranks", WorldSize()}});
  actions_.push_back(std::move(start));
}

// The set of attached slots is exactly the expected one, and each rank of our own trainer has
// loaded: who it is, is who the world names.
void Membership::TryOpenGate(Time now) {
  if (!gate_.Complete()) return;
  if (options_.managed) {
    for (control::Member& member : members_) {
      member.start = workers_.at(member.pod_uid).processes[member.slot].loaded;
      if (member.start.empty()) return;
    }
  }
  OpenGate(now);
}

void Membership::OpenGate(Time now) {
  phase_ = LauncherPhase::kRunning;
  gate_opened_at_ = now;
  NoteRestartByLauncher();
  if (!options_.managed) recovery_.Progressed(now, epoch_, 0);
  WatchWorld(now);
  ++epochs_run_;
  failed_starts_ = 0;
  known_epoch_ = epoch_;
  formed_here_ = true;
  stateful_.clear();
  all_stateful_ = false;
  ended_.clear();
  LogInfo("Opened the start gate", {{"epoch", epoch_.number}, {"ranks", WorldSize()}});
  SendWorld(std::nullopt);
}

// The running world ends when a member is no longer wanted, or when joiners are ready: all that
// were ordered, or those that waited long enough for the others.
void Membership::ReformIfNeeded(Time now) {
  for (const std::string& pod_uid : member_pods_) {
    if (InOrder(pod_uid)) continue;
    const bool one_too_many = order_->replicas < static_cast<int>(member_pods_.size());
    return Stop(now, NameOf(pod_uid) + " is no longer wanted", one_too_many ? "ScaledDown" : "Left",
                &workers_.at(pod_uid));
  }
  if (phase_ != LauncherPhase::kRunning || options_.managed) return;
  const std::vector<std::string> ready = ReadyInRankOrder();
  Time oldest_joiner = now;
  int joiners = 0;
  for (const std::string& pod_uid : ready) {
    if (IsMember(pod_uid)) continue;
    ++joiners;
    oldest_joiner = std::min(oldest_joiner, workers_.at(pod_uid).ready_since);
  }
  if (joiners == 0) return;
  // A member that is redialling counts as ready as soon as it is back: then there is no hurry.
  if (EveryoneReady(ready) ||
      now - std::max(oldest_joiner, LastFilled()) >= options_.partial_after) {
    Stop(now, std::to_string(joiners) + " workers join", "WorkersJoin");
  }
}

void Membership::Stop(Time now, const std::string& cause, const char* word, const Worker* whose) {
  if (phase_ != LauncherPhase::kStarting && phase_ != LauncherPhase::kRunning && !Elastic()) return;
  LogInfo("Ended an epoch", {{"epoch", epoch_.number}, {"cause", cause}});
  const bool ranks_ran = phase_ != LauncherPhase::kStarting;
  if (ranks_ran && !options_.managed) NoteRestart(now, word, whose);
  phase_ = LauncherPhase::kStopping;
  last_change_ = cause;
  stop_deadline_ = now + options_.stop_within;
  SendToPods(member_pods_,
             control::StopEpoch{epoch_, static_cast<int>(options_.stop_grace.count())});
  if (mpirun_running_) actions_.push_back(StopMpirun{});
  for (const control::Member& member : members_) {
    // No rank was told of this epoch, so no agent will report one.
    if (!ranks_ran) exits_.try_emplace({member.pod_uid, member.slot});
    // Given up with this world.
    Worker& worker = workers_.at(member.pod_uid);
    if (worker.silent && !worker.lost) Fence(worker);
  }
  ForgetWorldChanges();
  if (ranks_ran) adoption_.Clear();
  FinishStopping(now);
}

// A program that is not our trainer has to begin anew.
void Membership::NoteRestart(Time now, const char* word, const Worker* worker) {
  RecoveryWatch::Loss loss{word, "", "", now, epoch_};
  if (worker != nullptr) {
    loss.pod = worker->hello.pod;
    loss.node = worker->hello.node;
    if (worker->last_heard != Time{}) loss.last_sign = worker->last_heard;
  }
  loss.started = gate_opened_at_;
  recovery_.Lost(now, loss);
}

// The program ran under a launcher before us: agents know of its world.
void Membership::NoteRestartByLauncher() {
  if (options_.managed || epochs_run_ > 0 || recovery_.IsOpen()) return;
  const bool had_run =
      std::any_of(member_pods_.begin(), member_pods_.end(), [&](const std::string& pod_uid) {
        const control::Epoch& highest = workers_.at(pod_uid).hello.highest_epoch;
        return highest.number > 0 && highest.term < options_.term;
      });
  if (!had_run) return;
  RecoveryWatch::Loss loss{"LauncherLost", "", "", waiting_since_, {}};
  loss.started = Time{};
  recovery_.Lost(waiting_since_, loss);
}

void Membership::ForgetWorldChanges() {
  proposal_.reset();
  pause_reason_.clear();
  switching_ = false;
  at_boundary_.clear();
  first_at_boundary_.reset();
  broken_.clear();
  first_broken_at_.reset();
}

// The next world forms when mpirun has ended and the survivors have reported their ranks' ends, or
// time is up.
void Membership::FinishStopping(Time now) {
  bool reported = true;
  for (const control::Member& member : members_) {
    const Worker& worker = workers_.at(member.pod_uid);
    if (worker.connection && !worker.lost && !ended_.contains(KeyOf(member)) &&
        !exits_.contains({member.pod_uid, member.slot})) {
      reported = false;
    }
  }
  if ((mpirun_running_ || !reported) && now < stop_deadline_) return;
  // mpirun that outlives the deadline is killed by who runs it, before the next one starts.
  SetMembers({});
  stateful_.clear();
  exits_.clear();
  done_.clear();
  progress_.reset();
  phase_ = LauncherPhase::kWaitingForAgents;
  waiting_since_ = now;
  fault_seen_.reset();
  Advance(now);
}

}  // namespace ringmaster::launcher
