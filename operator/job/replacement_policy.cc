#include "operator/job/replacement_policy.h"

#include <algorithm>
#include <ctime>
#include <iomanip>
#include <sstream>

#include "common/base/backoff.h"
#include "operator/api/names.h"

namespace ringmaster::job {

namespace {

constexpr auto kWindow = std::chrono::minutes(10);
constexpr auto kSameEvent = std::chrono::seconds(5);
constexpr int kFreeReplacements = 2;
constexpr BackoffOptions kBackoff{.initial = std::chrono::milliseconds(1000),
                                  .limit = std::chrono::milliseconds(300'000),
                                  .factor = 2.0,
                                  .jitter = 0.0};

}  // namespace

std::optional<Clock::WallTime> ParseTime(const std::string& text) {
  std::tm fields{};
  std::istringstream in(text);
  in >> std::get_time(&fields, "%Y-%m-%dT%H:%M:%S");
  if (in.fail()) return std::nullopt;
  return std::chrono::system_clock::from_time_t(timegm(&fields));
}

std::chrono::milliseconds ReplacementDelay(const std::vector<api::Failure>& failures,
                                           FailedRole role, Clock::WallTime now) {
  std::vector<Clock::WallTime> times;
  for (const api::Failure& failure : failures) {
    const bool of_launcher = failure.reason == api::kReasonLauncherLost;
    if (of_launcher != (role == FailedRole::kLauncher)) continue;
    const auto time = ParseTime(failure.time);
    if (time && now - *time < kWindow) times.push_back(*time);
  }
  std::sort(times.begin(), times.end());
  int count = 0;
  Clock::WallTime last{};
  for (const Clock::WallTime time : times) {
    if (count == 0 || time - last > kSameEvent) ++count;
    last = time;
  }
  if (count <= kFreeReplacements) return {};
  const Clock::WallTime ready = last + BackoffDelay(kBackoff, count - kFreeReplacements, 0);
  if (ready <= now) return {};
  return std::chrono::ceil<std::chrono::milliseconds>(ready - now);
}

bool AddFailure(std::vector<api::Failure>& failures, api::Failure failure) {
  const bool known = !failure.pod_uid.empty() &&
                     std::any_of(failures.begin(), failures.end(), [&](const api::Failure& have) {
                       return have.pod_uid == failure.pod_uid && have.reason == failure.reason;
                     });
  if (known) return false;
  failures.insert(failures.begin(), std::move(failure));
  if (failures.size() > api::kMaxFailures) failures.resize(api::kMaxFailures);
  return true;
}

}  // namespace ringmaster::job
