// Builds the status of an elastic job.

#include <algorithm>
#include <set>
#include <string>

#include "common/base/count_text.h"
#include "worker/launcher/coordinator/elastic_job.h"

namespace ringmaster::launcher {

using control::LauncherPhase;
using control::Member;

std::string ElasticJob::WorldText() const {
  switch (phase_) {
    case LauncherPhase::kAdopting:
      return "waiting for the members of a world that was running before this launcher started";
    case LauncherPhase::kForming:
      return "waiting for " + CountText(std::ssize(change_.proposal->pods()), "worker") +
             " to accept epoch " + std::to_string(change_.proposal->epoch().number);
    case LauncherPhase::kPaused:
      return PausedText();
    default:
      return change_.switching ? "waiting for the ranks to finish a step before the members change"
                               : FillingText();
  }
}

std::string ElasticJob::PausedBecause() const {
  return phase_ == LauncherPhase::kPaused ? change_.pause_reason : "";
}

bool ElasticJob::IsProposed(const std::string& pod_uid) const {
  return change_.proposal && change_.proposal->Contains(pod_uid);
}

std::vector<std::string> ElasticJob::Builds() const {
  return WorldCanChange() ? BuildsOf(Survivors()) : std::vector<std::string>();
}

std::string ElasticJob::PausedText() const {
  if (change_.pause_reason == control::kPauseBelowMinReplicas) {
    const std::size_t pods = SurvivingPods();
    return "training is paused and its state is kept: " + std::to_string(pods) + " of at least " +
           CountText(order_->min_replicas, "worker", "is", "are") + " there; " + MissingText();
  }
  std::set<std::string> missing;
  for (const std::string& pod_uid : world_.pods()) {
    if (workers_.At(pod_uid).Silent() && !KnownDead(pod_uid)) missing.insert(pod_uid);
  }
  return "training is paused and its state is kept: too few workers of the last world are left, so "
         "the others may still be training; waiting for " +
         (missing.empty() ? "them" : NamesOf(missing)) + " to return or to be confirmed gone";
}

std::vector<control::Straggler> ElasticJob::Stragglers(Time now) const {
  std::vector<control::Straggler> stragglers;
  if (!WorldCanChange()) return stragglers;
  for (const StragglerWatch::Slow& slow : straggler_watch_.Stragglers(now)) {
    if (stragglers.size() == control::kMaxStragglers) break;
    const Member* member = world_.At(std::get<0>(slow.id), std::get<1>(slow.id));
    if (member == nullptr || IdOf(*member) != slow.id) continue;
    stragglers.push_back(
        {.pod_uid = member->pod_uid,
         .pod = member->pod,
         .node = member->node,
         .rank = member->rank,
         .step_millis = slow.own_micros / 1000,
         .median_millis = slow.median_micros / 1000,
         .for_seconds =
             std::chrono::duration_cast<std::chrono::seconds>(now - slow.since).count()});
  }
  return stragglers;
}

JobTimes ElasticJob::Times(Time now) const {
  JobTimes times;
  times.epoch = world_.epoch().number;
  if (const auto median = stall_watch_.MedianStep()) {
    times.median_step_seconds = std::chrono::duration<double>(*median).count();
  }
  if (!WorldCanChange()) return times;
  const std::vector<control::Straggler> stragglers = Stragglers(now);
  for (const Member& member : world_.members()) {
    RankTimes rank{.pod = member.pod, .node = member.node, .rank = member.rank};
    const auto& position = stall_watch_.positions()[static_cast<std::size_t>(member.rank)];
    if (position) {
      rank.step = position->step;
      rank.step_seconds = static_cast<double>(position->step_micros) / 1e6;
    }
    rank.own_seconds = straggler_watch_.OwnMicros(member).value_or(0) / 1e6;
    rank.straggler = std::any_of(stragglers.begin(), stragglers.end(),
                                 [&](const auto& one) { return one.rank == member.rank; });
    times.ranks.push_back(std::move(rank));
  }
  return times;
}

}  // namespace ringmaster::launcher
