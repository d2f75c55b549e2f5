// Selects the members of an elastic job's next world: the remaining members and the joiners.

#include <algorithm>
#include <utility>

#include "worker/launcher/coordinator/elastic_job.h"

namespace ringmaster::launcher {

using control::Member;

// Returns whether the member has certainly ended or its Pod is no longer trusted.
bool ElasticJob::Gone(const Member& member) const {
  const Worker& worker = workers_.At(member.pod_uid);
  return !worker.Trusted() || ended_.contains(KeyOf(member));
}

// Returns whether the Pod is dead or all its members have ended.
bool ElasticJob::KnownDead(const std::string& pod_uid) const {
  if (workers_.At(pod_uid).Dead()) return true;
  const std::vector<int>& ranks = world_.RanksOf(pod_uid);
  return std::all_of(ranks.begin(), ranks.end(),
                     [&](int rank) { return ended_.contains(KeyOf(world_.member(rank))); });
}

bool ElasticJob::Leaving(const std::string& pod_uid) const {
  return workers_.At(pod_uid).leaving || !InOrder(pod_uid);
}

std::size_t ElasticJob::SurvivingPods() const {
  return static_cast<std::size_t>(std::count_if(
      world_.ranks_by_pod().begin(), world_.ranks_by_pod().end(), [&](const auto& pod) {
        return std::any_of(pod.second.begin(), pod.second.end(),
                           [&](int rank) { return !Gone(world_.member(rank)); });
      }));
}

std::vector<Member> ElasticJob::Survivors() const {
  std::vector<Member> survivors;
  for (const Member& member : world_.members()) {
    if (!Gone(member)) survivors.push_back(member);
  }
  return survivors;
}

// Returns the loaded processes in slots without a living member, ordered by worker and slot. The
// free slots of a worker join either all together or not at all.
std::vector<Member> ElasticJob::Joiners(Time now, const std::vector<Member>& survivors) const {
  if (!MayHaveJoiners()) return {};
  std::set<Slot> taken;
  for (const Member& member : survivors) taken.insert({member.pod_uid, member.slot});
  std::vector<control::DesiredWorker> wanted = order_->workers;
  std::sort(wanted.begin(), wanted.end(),
            [](const auto& a, const auto& b) { return a.index < b.index; });
  std::vector<Member> joiners;
  std::vector<std::string> builds = BuildsOf(survivors);
  for (const control::DesiredWorker& one : wanted) {
    const Worker* found = workers_.Find(one.pod_uid);
    if (found == nullptr || !found->IsReady()) continue;
    const Worker& worker = *found;
    std::vector<Member> of_this_worker;
    for (int slot = 0; slot < options_.slots; ++slot) {
      if (taken.contains({one.pod_uid, slot})) continue;
      const auto process = worker.processes.find(slot);
      const bool complete = process != worker.processes.end() && !process->second.loaded.empty() &&
                            !ended_.contains({one.pod_uid, slot, process->second.loaded}) &&
                            cooldown_.Until(now, one.pod_uid, slot) <= now;
      if (!complete) {
        of_this_worker.clear();
        break;
      }
      of_this_worker.push_back({one.pod_uid, worker.hello.pod, worker.hello.node,
                                worker.ready->address, slot, process->second.loaded, -1});
    }
    if (of_this_worker.empty()) continue;
    if (!UnfitText(one.pod_uid, builds).empty()) continue;
    AddBuild(one.pod_uid, builds);
    for (Member& member : of_this_worker) {
      taken.insert({member.pod_uid, member.slot});
      joiners.push_back(std::move(member));
    }
  }
  return joiners;
}

// Returns whether a loaded process is in a slot without a living member. This check is cheap if the
// world is complete.
bool ElasticJob::MayHaveJoiners() const {
  return std::any_of(
      workers_.connections().begin(), workers_.connections().end(), [&](const auto& entry) {
        const Worker& worker = workers_.At(entry.second);
        return std::any_of(worker.processes.begin(), worker.processes.end(),
                           [&](const auto& process) {
                             if (process.second.loaded.empty()) return false;
                             const Member* member = world_.At(entry.second, process.first);
                             return member == nullptr || Gone(*member);
                           });
      });
}

std::vector<std::string> ElasticJob::BuildsOf(const std::vector<Member>& members) const {
  std::vector<std::string> builds;
  const std::string* last = nullptr;
  for (const Member& member : members) {
    if (last != nullptr && *last == member.pod_uid) continue;
    last = &member.pod_uid;
    AddBuild(member.pod_uid, builds);
  }
  return builds;
}

std::vector<Member> ElasticJob::Next(Time now, bool leavers_go) const {
  std::vector<Member> survivors = Survivors();
  std::vector<Member> joiners = Joiners(now, survivors);
  NextWorldInput input{std::move(survivors), {}, stateful_, std::move(joiners)};
  for (const std::string& pod_uid : world_.pods()) {
    if (leavers_go && Leaving(pod_uid)) input.leavers.insert(pod_uid);
  }
  return NextWorld(std::move(input));
}

// Returns whether members must leave, or joiners can join because all ordered workers are present
// or the joiners have waited long enough. Joiners wait if the next world could not start.
bool ElasticJob::ChangeWanted(Time now) const {
  if (!done_.empty()) return false;  // the job is about to end
  const bool leaves = std::any_of(world_.pods().begin(), world_.pods().end(),
                                  [&](const std::string& pod_uid) { return Leaving(pod_uid); });
  if (!leaves && !MayHaveJoiners()) return false;
  const std::vector<Member> next = Next(now, /*leavers_go=*/true);
  std::set<MemberId> present;
  for (const Member& member : world_.members()) present.insert(IdOf(member));
  Time oldest = now;
  std::size_t stay = 0;
  for (const Member& member : next) {
    if (present.contains(IdOf(member))) {
      ++stay;
      continue;
    }
    const Worker& worker = workers_.At(member.pod_uid);
    oldest =
        std::min(oldest, std::max(worker.ready_since, worker.processes.at(member.slot).loaded_at));
  }
  if (stay < world_.members().size()) return true;
  if (stay == next.size() || !PauseReason(next).empty()) return false;
  const std::set<std::string> pods = PodsOf(next);
  const bool complete =
      static_cast<int>(pods.size()) >= order_->replicas &&
      next.size() == pods.size() * static_cast<std::size_t>(options_.slots) &&
      std::all_of(order_->workers.begin(), order_->workers.end(),
                  [&](const auto& wanted) { return pods.contains(wanted.pod_uid); });
  return complete || now - oldest >= options_.join_window;
}

}  // namespace ringmaster::launcher
