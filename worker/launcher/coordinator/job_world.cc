// Starts the first world with mpirun or the agents, and ends worlds.

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "common/base/cut_text.h"
#include "common/base/log.h"
#include "common/control/pod_contract.h"
#include "common/control/reasons.h"
#include "worker/launcher/coordinator/job.h"

namespace ringmaster::launcher {

using control::LauncherPhase;

namespace {

// Returns whether the text contains this version: "5.0.10" does not contain 5.0.1.
bool NamesVersion(const std::string& text, const std::string& version) {
  const std::size_t at = text.find(version);
  if (at == std::string::npos) return false;
  const std::size_t end = at + version.size();
  return end == text.size() || std::isdigit(static_cast<unsigned char>(text[end])) == 0;
}

}  // namespace

bool Job::InOrder(const std::string& pod_uid) const { return ordered_.contains(pod_uid); }

// Returns ready Pods, oldest first: members of the last epoch in their order, then others by index.
std::vector<std::string> Job::ReadyInRankOrder() const {
  std::vector<std::pair<std::pair<std::size_t, int>, std::string>> ready;
  for (const control::DesiredWorker& wanted : order_->workers) {
    const Worker* worker = workers_.Find(wanted.pod_uid);
    if (worker == nullptr || !worker->IsReady()) continue;
    const auto senior = seniority_.find(wanted.pod_uid);
    const std::size_t place = senior == seniority_.end() ? seniority_.size() : senior->second;
    ready.push_back({{place, wanted.index}, wanted.pod_uid});
  }
  std::sort(ready.begin(), ready.end());
  // A Pod that occurs twice in the order counts as one worker.
  ready.erase(std::unique(ready.begin(), ready.end()), ready.end());
  std::vector<std::string> pod_uids;
  for (auto& [place, pod_uid] : ready) pod_uids.push_back(std::move(pod_uid));
  return pod_uids;
}

int Job::SizeOfWorld(std::size_t workers) const {
  const int count = static_cast<int>(workers);
  if (options_.allowed_sizes.empty()) return count;
  const auto above = std::ranges::upper_bound(options_.allowed_sizes, count);
  return above == options_.allowed_sizes.begin() ? 0 : *std::prev(above);
}

int Job::FullSize() const {
  if (!order_) return 0;
  return SizeOfWorld(static_cast<std::size_t>(order_->replicas)) * options_.slots;
}

bool Job::AllReady(const std::vector<std::string>& ready) const {
  const auto wanted = static_cast<std::size_t>(order_->replicas);
  // True if the ready workers can form the largest world that the ordered workers can form.
  const bool largest = SizeOfWorld(ready.size()) >= SizeOfWorld(wanted);
  if (!options_.allowed_sizes.empty() && largest) return true;
  return ready.size() >= wanted && ready.size() == ordered_.size();  // `ready` lists ordered Pods
}

bool Job::PartialStartDue(Time now, std::size_t ready) const {
  return SizeOfWorld(ready) >= std::max(1, order_->min_replicas) &&
         now - std::max(waiting_since_, LastFilled()) >= options_.partial_after;
}

// Returns the latest time at which a data cache that is still being filled made progress. The job
// does not wait for workers whose data caches make no progress.
Job::Time Job::LastFilled() const {
  Time last{};
  for (const control::DesiredWorker& wanted : order_->workers) {
    const Worker* worker = workers_.Find(wanted.pod_uid);
    if (worker == nullptr || !worker->IsFilling()) continue;
    last = std::max(last, worker->filled_at);
  }
  return last;
}

// Returns whether enough workers are ready but the start waits for an older world.
bool Job::WaitsForOlderWorld(Time now) const {
  return phase_ == LauncherPhase::kWaitingForAgents && order_ &&
         PartialStartDue(now, ReadyInRankOrder().size()) && !Unaccounted().empty();
}

void Job::JudgeFaults(Time now) {
  if (!StarterKnown()) return;  // unknown whether a missing Open MPI is a fault
  std::vector<const Worker*> faulty;
  int ready = 0;
  for (const control::DesiredWorker& wanted : order_->workers) {
    const Worker* worker = workers_.Find(wanted.pod_uid);
    if (worker == nullptr || !worker->ready || worker->leaving) continue;
    if (worker->ready->faults.empty()) {
      ++ready;
    } else {
      faulty.push_back(worker);
    }
  }
  if (faulty.empty()) return fault_seen_.reset();
  if (!fault_seen_) fault_seen_ = now;
  const int unreported = order_->replicas - ready - static_cast<int>(faulty.size());
  const bool complete = unreported <= 0 || now - *fault_seen_ >= options_.fault_settle;
  // A faulty replacement does not fail the job as long as enough other workers can train.
  const bool hopeless = ready + std::max(0, unreported) < std::max(1, order_->min_replicas);
  if (!complete || (epochs_run_ > 0 && !hopeless)) return;

  Fail(now, {control::kReasonPreflightFailed, FaultsText(faulty)});
}

// Returns one text per fault, with the workers that have it.
std::string Job::FaultsText(const std::vector<const Worker*>& faulty) const {
  constexpr std::size_t kMostWorkers = 5;
  constexpr std::size_t kMostBytes = 1500;
  std::vector<std::pair<std::string, std::vector<std::string>>> workers_of_fault;
  std::unordered_map<std::string, std::size_t> places;  // in workers_of_fault, by text
  for (const Worker* worker : faulty) {
    const control::PreflightFault& fault = worker->ready->faults.front();
    const std::string what = " failed the check '" + fault.check + "': " + fault.message;
    const auto [place, first] = places.emplace(what, workers_of_fault.size());
    if (first) workers_of_fault.push_back({what, {}});
    workers_of_fault[place->second].second.push_back(NameOf(worker->hello.pod_uid));
  }
  std::string text;
  for (const auto& [what, workers] : workers_of_fault) {
    if (text.size() > kMostBytes) return text + "; and more";
    text += (text.empty() ? "" : "; ") + ListText(workers, kMostWorkers) + what;
  }
  return text;
}

std::vector<std::string> Job::ProgramsToMatch() const {
  std::vector<std::string> programs;
  if (!agents_start_) programs.emplace_back("openmpi");
  if (options_.elastic) programs.emplace_back("ringmaster");  // its code runs in elastic ranks
  return programs;
}

// Returns the version of a program that a ready worker reported; empty: none reported.
std::string Job::VersionOf(const std::string& pod_uid, const std::string& program) const {
  const auto& versions = workers_.At(pod_uid).ready->versions;
  const auto version = versions.find(program);
  return version == versions.end() ? "" : version->second;
}

// Returns which workers cannot form a world together, and why; empty if they can. Call before the
// start, because different builds of Open MPI fail with misleading errors.
std::string Job::MixedText(const std::vector<std::string>& pod_uids) const {
  const std::string& first = pod_uids.front();
  for (const std::string& pod_uid : pod_uids) {
    for (const std::string& program : ProgramsToMatch()) {
      const std::string mine = VersionOf(pod_uid, program);
      const std::string theirs = VersionOf(first, program);
      if (mine.empty() || theirs.empty() || mine == theirs) continue;
      return NameOf(pod_uid) + " has " + program + " " + mine + ", " + NameOf(first) + " has " +
             theirs + "; use the same image";
    }
    if (agents_start_) continue;
    const std::string openmpi = VersionOf(pod_uid, "openmpi");
    if (!openmpi.empty() && !NamesVersion(openmpi, openmpi_version_)) {
      return NameOf(pod_uid) + " has Open MPI " + openmpi + ", the launcher has " +
             openmpi_version_ + "; use the same image";
    }
  }
  return "";
}

void Job::AddBuild(const std::string& pod_uid, std::vector<std::string>& builds) const {
  if (!workers_.At(pod_uid).ready) return;
  const bool known = std::any_of(builds.begin(), builds.end(), [&](const std::string& other) {
    return SameBuild(pod_uid, other);
  });
  if (!known) builds.push_back(pod_uid);
}

// Returns whether both workers report the same versions of all programs in ProgramsToMatch().
bool Job::SameBuild(const std::string& pod_uid, const std::string& other) const {
  return std::ranges::all_of(ProgramsToMatch(), [&](const std::string& program) {
    return VersionOf(pod_uid, program) == VersionOf(other, program);
  });
}

// Returns why this worker cannot join a world of Pods with these builds; empty if it can.
std::string Job::UnfitText(const std::string& pod_uid,
                           const std::vector<std::string>& builds) const {
  std::vector<std::string> pods = {pod_uid};
  pods.insert(pods.end(), builds.begin(), builds.end());
  return MixedText(pods);
}

void Job::TryStart(Time now) {
  std::vector<std::string> ready = ReadyInRankOrder();
  const int size = SizeOfWorld(ready.size());
  if (size == 0 || !StarterKnown() || now < MayStartAt(now)) return;
  if (!AllReady(ready) && !PartialStartDue(now, ready.size())) return;
  if (AnotherWorldMayRun(now)) return;
  ready.resize(static_cast<std::size_t>(size));
  if (const std::string mixed = MixedText(ready); !mixed.empty()) {
    return Fail(now, {control::kReasonPreflightFailed, mixed});
  }
  Start(now, ready);
}

void Job::Start(Time now, const std::vector<std::string>& pod_uids) {
  // Agents may know epochs from before this container restarted, so use a higher number.
  const control::Epoch epoch{options_.term, ++highest_number_};
  // Agents track attach processes by cohort. A cohort must therefore be as unique as an epoch, also
  // across restarts of this container.
  const int64_t cohort = agents_start_ ? control::kStartedByAgents : epoch.number;
  seniority_.clear();
  for (const std::string& pod_uid : pod_uids) seniority_.emplace(pod_uid, seniority_.size());
  exits_.clear();
  failures_.Reset();
  released_at_.reset();
  store_.Reset(epoch, static_cast<int>(pod_uids.size()) * options_.slots);

  StartMpirun start;
  start.cohort = cohort;
  std::vector<control::Member> members;
  for (const std::string& pod_uid : pod_uids) {
    const Worker& worker = workers_.At(pod_uid);
    start.hosts.push_back({pod_uid, worker.hello.pod, worker.ready->address, worker.ready->ssh_port,
                           options_.slots, VersionOf(pod_uid, "user"), *worker.connection});
    for (int slot = 0; slot < options_.slots; ++slot) {
      members.push_back({pod_uid, worker.hello.pod, worker.hello.node, worker.ready->address, slot,
                         "", static_cast<int>(members.size())});
    }
  }
  std::set<Slot> expected;
  for (const control::Member& member : members) expected.insert({member.pod_uid, member.slot});
  world_ = CurrentWorld(epoch, std::move(members), FullSize());
  NoteStart();
  startup_.Begin(now, cohort, std::move(expected));
  start.world_size = world_.size();
  start.by_agent = through_agents_;
  phase_ = LauncherPhase::kStarting;
  started_at_ = now;
  LogInfo(
      "Started an epoch",
      {{"epoch", world_.epoch().number}, {"workers", pod_uids.size()}, {"ranks", world_.size()}});
  if (agents_start_) return TryOpenGate(now);
  actions_.push_back(std::move(start));
}

void Job::TryOpenGate(Time now) {
  if (!startup_.AllAttached() || !AllLoaded()) return;
  OpenGate(now);
}

void Job::OpenGate(Time now) {
  phase_ = LauncherPhase::kRunning;
  NoteOpenGate(now);
  ++epochs_run_;
  startup_.GateOpened();
  LogInfo("Opened the start gate", {{"epoch", world_.epoch().number}, {"ranks", world_.size()}});
  SendWorld(std::nullopt);
}

// Call while the start gate is closed. If the start has failed, fails the job or tries again.
void Job::JudgeMpirun(Time now) {
  const Startup::Judgement judgement =
      startup_.Judge(now, options_,
                     {[this](Time since) { return AllMembersReportedSince(since); },
                      [this](const Slot& slot) { return SlotText(slot); }, world_.members()});
  if (judgement.failure) return Fail(now, *judgement.failure);
  if (judgement.start_again) Stop(now, *judgement.start_again);
}

// Stops the world and returns true if a member is no longer ordered. Called while mpirun starts the
// world, or if the world cannot change in place.
bool Job::StopIfNoLongerOrdered(Time now) {
  for (const std::string& pod_uid : world_.pods()) {
    if (InOrder(pod_uid)) continue;
    const bool one_too_many = order_->replicas < static_cast<int>(world_.pods().size());
    Stop(now, NameOf(pod_uid) + " is no longer wanted",
         one_too_many ? control::kCauseScaledDown : control::kCauseLeft, &workers_.At(pod_uid));
    return true;
  }
  return false;
}

void Job::Stop(Time now, const std::string& cause, const char* word, const Worker* whose) {
  if (phase_ != LauncherPhase::kStarting && phase_ != LauncherPhase::kRunning && !WorldCanChange())
    return;
  LogInfo("Ended an epoch", {{"epoch", world_.epoch().number}, {"cause", cause}});
  const bool ranks_ran = phase_ != LauncherPhase::kStarting;
  if (ranks_ran) NoteStop(now, word, whose);
  phase_ = LauncherPhase::kStopping;
  last_change_ = cause;
  stop_deadline_ = now + options_.stop_within;
  SendToPods(world_.pods(), StopWorld());
  if (startup_.mpirun_runs()) actions_.push_back(StopMpirun{});
  for (const control::Member& member : world_.members()) {
    // No rank received this epoch, so agents will not report exits of its ranks.
    if (!ranks_ran) exits_.try_emplace({member.pod_uid, member.slot});
    // A silent worker is fenced when its world is stopped.
    Worker& worker = workers_.At(member.pod_uid);
    if (worker.Silent() && !worker.Fenced()) Fence(worker);
  }
  ForgetChange(ranks_ran);
  FinishStopping(now);
}

// Completes the stop when mpirun has ended and the connected members have reported their ranks'
// exits, or at the deadline. After the stop, the next world can form.
void Job::FinishStopping(Time now) {
  bool reported = true;
  for (const control::Member& member : world_.members()) {
    const Worker& worker = workers_.At(member.pod_uid);
    if (worker.connection && !worker.Fenced() && !EndIsKnown(member) &&
        !exits_.contains({member.pod_uid, member.slot})) {
      reported = false;
    }
  }
  if ((startup_.mpirun_runs() || !reported) && now < stop_deadline_) return;
  // If mpirun still runs, MpirunRunner kills it before the next start.
  world_ = CurrentWorld(world_.epoch(), {});
  NoteWorldOver();
  exits_.clear();
  progress_.reset();
  phase_ = LauncherPhase::kWaitingForAgents;
  waiting_since_ = now;
  fault_seen_.reset();
  Advance(now);
}

bool Job::AllMembersReportedSince(Time since) const {
  return std::all_of(world_.pods().begin(), world_.pods().end(), [&](const std::string& pod_uid) {
    const Worker& worker = workers_.At(pod_uid);
    return worker.connection && worker.last_heard > since;
  });
}

}  // namespace ringmaster::launcher
