#include "operator/job/policy/replacement_policy.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "common/base/backoff.h"
#include "common/control/exit_codes.h"
#include "common/control/reasons.h"
#include "common/control/verdict.h"
#include "operator/api/names.h"
#include "operator/job/model/foreign_times.h"
#include "operator/job/policy/verdict_policy.h"

namespace ringmaster::job {

namespace {

constexpr auto kWindow = std::chrono::minutes(10);
constexpr auto kSameEvent = std::chrono::seconds(5);
constexpr int kFreeReplacements = 2;
constexpr BackoffOptions kBackoff{.initial = std::chrono::milliseconds(1000),
                                  .limit = std::chrono::milliseconds(300'000),
                                  .factor = 2.0,
                                  .jitter = 0.0};

// Returns true if the cluster ended the Pod, so its replacement is not expected to fail as well.
bool IsDisruption(const std::string& reason) {
  static constexpr std::string_view kReasons[]{"Evicted", "Preempting", "NodeShutdown",
                                               api::kReasonNodeLost, api::kReasonNodeNotReady};
  return std::ranges::find(kReasons, reason) != std::end(kReasons);
}

// Returns true for a failure of a rank. The rank's Pod continues, and its agent restarts the rank.
bool IsOfRank(const api::Failure& failure) {
  return failure.reason == control::kReasonRankFailed ||
         failure.reason == api::kReasonProgramRestarted || !failure.start.empty();
}

bool IsOfLauncher(const api::Failure& failure) {
  return failure.reason == api::kReasonLauncherLost ||
         failure.reason == api::kReasonLauncherOOMKilled;
}

// Returns the index of the entry to remove. Never returns the newest: AddRankFailures() needs it.
std::size_t LeastNeeded(const std::vector<api::Failure>& failures) {
  constexpr std::ptrdiff_t kLeastOfRanks = 4;
  if (std::ranges::count_if(failures, IsOfRank) > kLeastOfRanks) {
    const auto oldest = std::find_if(failures.rbegin(), failures.rend(), IsOfRank);
    return static_cast<std::size_t>(std::distance(oldest, failures.rend())) - 1;
  }
  // Among entries of the same kind within five seconds, keep the oldest and remove another one.
  std::map<std::pair<bool, bool>, Clock::WallTime> events;
  for (std::size_t i = failures.size() - 1; i > 0; --i) {
    const auto time = ParseTime(failures[i].time);
    if (!time || IsOfRank(failures[i])) continue;
    const std::pair kind(IsOfLauncher(failures[i]), IsDisruption(failures[i].reason));
    const auto [event, first] = events.try_emplace(kind, *time);
    if (!first && std::chrono::abs(*time - event->second) <= kSameEvent) return i;
    event->second = *time;
  }
  const auto oldest = std::find_if_not(failures.rbegin(), failures.rend(), IsOfRank);
  return static_cast<std::size_t>(std::distance(oldest, failures.rend())) - 1;
}

bool Listed(const std::vector<api::Failure>& failures, const api::Failure& failure) {
  if (failure.pod_uid.empty()) return false;
  return std::any_of(failures.begin(), failures.end(), [&](const api::Failure& have) {
    if (have.pod_uid != failure.pod_uid || have.start != failure.start) return false;
    return !failure.start.empty() || (have.reason == failure.reason && have.rank == failure.rank);
  });
}

}  // namespace

std::chrono::milliseconds ReplacementDelay(const std::vector<api::Failure>& failures,
                                           FailedRole role, Clock::WallTime now) {
  std::vector<Clock::WallTime> times;
  for (const api::Failure& failure : failures) {
    if (IsOfRank(failure) || IsDisruption(failure.reason)) continue;
    if (IsOfLauncher(failure) != (role == FailedRole::kLauncher)) continue;
    const auto time = ParseTime(failure.time);
    if (time && now - *time < kWindow) times.push_back(*time);
  }
  std::sort(times.begin(), times.end());
  int count = 0;
  Clock::WallTime last{};
  Clock::WallTime event{};  // first failure of the event; failures within kSameEvent belong to it
  for (const Clock::WallTime time : times) {
    if (time - event > kSameEvent) {
      ++count;
      event = time;
    }
    last = time;
  }
  if (count <= kFreeReplacements) return {};
  const Clock::WallTime ready = last + BackoffDelay(kBackoff, count - kFreeReplacements, 0);
  return std::max(std::chrono::milliseconds(0),
                  std::chrono::ceil<std::chrono::milliseconds>(ready - now));
}

bool AddFailure(std::vector<api::Failure>& failures, api::Failure failure) {
  if (Listed(failures, failure)) return false;
  for (api::Failure& earlier : failures) {
    if (!failure.stack.empty()) earlier.stack.clear();
  }
  failures.insert(failures.begin(), std::move(failure));
  while (failures.size() > api::kMaxFailures) {
    failures.erase(failures.begin() + static_cast<std::ptrdiff_t>(LeastNeeded(failures)));
  }
  return true;
}

std::size_t AddRankFailures(const std::vector<control::RankExit>& exits,
                            const std::string& wall_now, std::vector<api::Failure>& failures) {
  const auto entry = [&](const control::RankExit& exit) {
    api::Failure failure = FailureOf(exit, control::kReasonRankFailed, wall_now);
    // An entry without a start is not from a rank, so do not use the launcher's reason.
    if (failure.start.empty()) failure.reason = control::kReasonRankFailed;
    // Ignore exit codes of entries without a start: in mode Restart, the user's program sets them.
    const bool device = failure.exit_code == control::kExitDeviceUnhealthy;
    if (device && !failure.start.empty()) failure.reason = api::kReasonDeviceUnhealthy;
    const bool user_error = failure.exit_code == control::kExitUserError && failure.signal == 0;
    if (user_error && !failure.start.empty()) failure.reason = control::kReasonUserError;
    return failure;
  };
  // Entries that are older than a known entry are known, too. Do not add them again if they were
  // removed from `failures`.
  auto first_new = exits.end();
  while (first_new != exits.begin() && !Listed(failures, entry(*std::prev(first_new)))) {
    --first_new;
  }
  std::size_t added = 0;
  for (; first_new != exits.end(); ++first_new) {
    if (first_new->pod_uid.empty()) continue;
    added += AddFailure(failures, entry(*first_new)) ? 1 : 0;
  }
  return std::min(added, failures.size());
}

std::vector<std::string> NodesWithUnhealthyGpus(const std::vector<api::Failure>& failures) {
  std::set<std::string> nodes;
  for (const api::Failure& failure : failures) {
    if (failure.reason == api::kReasonDeviceUnhealthy) nodes.insert(failure.node);
  }
  nodes.erase("");
  return {nodes.begin(), nodes.end()};
}

}  // namespace ringmaster::job
