#include "operator/runtime/leader_elector.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/log.h"
#include "operator/kube/json_access.h"
#include "operator/kube/resource_version.h"

namespace ringmaster::runtime {
namespace {

using std::chrono::milliseconds;

constexpr double kRetryJitter = 1.2;  // maximum of a random factor of the retry period

// Rounds a lease duration up to whole seconds, as the API requires. A standby may wait longer than
// the duration, but not less.
int64_t WholeSeconds(milliseconds duration) {
  return std::max<int64_t>(1, (duration.count() + 999) / 1000);
}

}  // namespace

Result<void> Validate(const LeaderElectorOptions& options) {
  const auto retry = std::chrono::duration_cast<milliseconds>(options.retry_period * kRetryJitter);
  if (options.retry_period.count() <= 0)
    return Error{ErrorKind::kInvalid, "the retry period must be above zero"};
  if (options.renew_deadline <= retry) {
    return Error{ErrorKind::kInvalid,
                 "the renew deadline must be longer than 1.2 times the retry period"};
  }
  if (options.lease_duration <= options.renew_deadline) {
    return Error{ErrorKind::kInvalid, "the lease duration must be longer than the renew deadline"};
  }
  return {};
}

LeaderElector::LeaderElector(kube::KubeClient& client, const Clock& clock,
                             LeaderElectorOptions options, Callbacks callbacks)
    : client_(client),
      clock_(clock),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)) {}

LeaderElector::~LeaderElector() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

void LeaderElector::Start() {
  thread_ = std::jthread([this](std::stop_token stop) { Work(stop); });
}

void LeaderElector::Work(std::stop_token stop) {
  while (!stop.stop_requested()) {
    const milliseconds delay = Step();
    MutexLock lock(mutex_);
    wake_.WaitFor(mutex_, stop, delay, [] { return false; });
  }
}

milliseconds LeaderElector::Step() {
  client_.SetDeadline(TryLimit());
  const Result<void> tried = TryAcquireOrRenew();
  std::uniform_real_distribution<double> uniform(1.0, kRetryJitter);
  const auto delay =
      std::chrono::duration_cast<milliseconds>(options_.retry_period * uniform(random_));
  if (leading_) {
    const auto left = renewed_at_ + options_.renew_deadline - clock_.Now();
    if (left.count() <= 0) {
      Lost(tried.ok() ? "the lease could not be renewed in time" : tried.error().message);
      return delay;
    }
    // A failed renewal is retried soon, and the retry must not exceed the deadline.
    const auto wait = tried.ok() ? delay : delay / 4;
    return std::max(milliseconds(1),
                    std::min(wait, std::chrono::duration_cast<milliseconds>(left)));
  }
  const std::string trouble = tried.ok() ? std::string() : tried.error().message;
  if (trouble != trouble_ && !tried.ok())
    LogWarn("Failed to acquire the lease", {{"error", trouble}});
  trouble_ = trouble;
  if (!tried.ok()) return delay;
  // A standby reads the lease twice as often as the leader renews it, and when the lease expires.
  // A standby thus takes over soon after the leader has ended.
  const auto left =
      std::chrono::duration_cast<milliseconds>(observed_at_ + record_.duration - clock_.Now());
  return std::clamp(std::min(delay / 2, left + milliseconds(1)), milliseconds(10), delay);
}

// Returns the time limit of a try, which must end before the renew deadline. A leader that was
// paused beyond this deadline gets one short try, which succeeds only if no standby has taken over.
milliseconds LeaderElector::TryLimit() const {
  const milliseconds half = options_.renew_deadline / 2;
  if (!leading_) return half;
  const auto left = renewed_at_ + options_.renew_deadline - clock_.Now();
  return std::clamp(std::chrono::duration_cast<milliseconds>(left),
                    std::min(half, milliseconds(500)), half);
}

Result<void> LeaderElector::TryAcquireOrRenew() {
  const Clock::Time started = clock_.Now();
  if (leading_) {
    // The record's version makes this a compare-and-set, which fails after any other write.
    Result<void> renewed = UpdateLease(true);
    if (renewed.ok()) {
      renewed_at_ = started;
      return {};
    }
    if (renewed.error().kind != ErrorKind::kConflict &&
        renewed.error().kind != ErrorKind::kNotFound)
      return renewed;
  }
  const Result<nlohmann::json> lease = client_.Get(kube::kLeases, options_.ns, options_.name);
  if (!lease.ok()) {
    if (lease.error().kind != ErrorKind::kNotFound) return lease.error();
    if (leading_) {
      Lost("the lease was deleted");
      return {};
    }
    return CreateLease();
  }
  if (Result<void> observed = Observe(*lease); !observed.ok()) return observed;
  const bool ours = record_.holder == options_.identity;
  if (leading_ && !ours) {
    Lost("the lease was acquired by " + record_.holder);
    return {};
  }
  const bool expired = record_.holder.empty() || clock_.Now() - observed_at_ >= record_.duration;
  if (!ours && !expired) return {};
  Result<void> updated = UpdateLease(ours);
  if (!updated.ok()) {
    // Another standby acquired the lease first, which is expected.
    return !leading_ && updated.error().kind == ErrorKind::kConflict ? Result<void>() : updated;
  }
  if (!leading_) return Became(started);
  renewed_at_ = started;
  return {};
}

Result<void> LeaderElector::CreateLease() {
  const Clock::Time started = clock_.Now();
  const std::string now = FormatMicroTime(clock_.WallNow());
  const auto created = client_.Create(
      kube::kLeases, options_.ns, LeaseJson(options_.identity, options_.lease_duration, 0, now));
  if (!created.ok()) {
    return created.error().kind == ErrorKind::kAlreadyExists ? Result<void>()
                                                             : Result<void>(created.error());
  }
  if (Result<void> observed = Observe(*created); !observed.ok()) return observed;
  return Became(started);
}

// Reads the lease. A changed lease expires one lease duration from now, by the local clock.
Result<void> LeaderElector::Observe(const nlohmann::json& lease) {
  Record seen;
  seen.resource_version = kube::GetString(lease, {"metadata", "resourceVersion"});
  if (seen.resource_version.empty())
    return Error{ErrorKind::kInvalid, "the lease has no resourceVersion"};
  seen.holder = kube::GetString(lease, {"spec", "holderIdentity"});
  seen.transitions = kube::GetInt64(lease, {"spec", "leaseTransitions"}).value_or(0);
  seen.acquire_time = kube::GetString(lease, {"spec", "acquireTime"});
  const auto seconds = kube::GetInt64(lease, {"spec", "leaseDurationSeconds"});
  seen.duration = seconds ? milliseconds(std::chrono::seconds(*seconds)) : options_.lease_duration;
  if (seen.resource_version != record_.resource_version) observed_at_ = clock_.Now();
  record_ = std::move(seen);
  return {};
}

Result<void> LeaderElector::UpdateLease(bool renew) {
  const int64_t transitions = renew ? record_.transitions : record_.transitions + 1;
  const std::string acquired = renew && !record_.acquire_time.empty()
                                   ? record_.acquire_time
                                   : FormatMicroTime(clock_.WallNow());
  const auto updated =
      client_.Update(kube::kLeases, options_.ns, options_.name,
                     LeaseJson(options_.identity, options_.lease_duration, transitions, acquired));
  if (!updated.ok()) return updated.error();
  return Observe(*updated);
}

nlohmann::json LeaderElector::LeaseJson(const std::string& holder, milliseconds duration,
                                        int64_t transitions,
                                        const std::string& acquire_time) const {
  nlohmann::json lease = {{"apiVersion", kube::kLeases.ApiVersion()},
                          {"kind", kube::kLeases.kind},
                          {"metadata", {{"namespace", options_.ns}, {"name", options_.name}}},
                          {"spec",
                           {{"holderIdentity", holder},
                            {"leaseDurationSeconds", WholeSeconds(duration)},
                            {"leaseTransitions", transitions},
                            {"acquireTime", acquire_time},
                            {"renewTime", FormatMicroTime(clock_.WallNow())}}}};
  if (!record_.resource_version.empty())
    lease["metadata"]["resourceVersion"] = record_.resource_version;
  return lease;
}

Result<void> LeaderElector::Became(Clock::Time started) {
  const std::optional<int64_t> term = kube::NumberOf(record_.resource_version);
  if (!term) {
    return Error{ErrorKind::kInvalid,
                 "the lease's resourceVersion \"" + record_.resource_version +
                     "\" is not a number; the operator needs a number to order requests"};
  }
  term_ = *term;
  renewed_at_ = started;
  leading_ = true;
  LogInfo("Became the leader", {{"identity", options_.identity}, {"term", *term}});
  if (callbacks_.on_elected) callbacks_.on_elected(*term);
  return {};
}

void LeaderElector::Lost(const std::string& why) {
  leading_ = false;
  LogError("Lost the lease", {{"identity", options_.identity}, {"reason", why}});
  if (callbacks_.on_lost) callbacks_.on_lost(why);
}

void LeaderElector::StopAndRelease() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  if (!leading_.exchange(false)) return;
  // Write a lease without a holder, valid for a second. Standbys treat it as expired immediately.
  const auto released = client_.Update(
      kube::kLeases, options_.ns, options_.name,
      LeaseJson({}, std::chrono::seconds(1), record_.transitions, record_.acquire_time));
  if (released.ok()) {
    LogInfo("Released the lease", {{"identity", options_.identity}});
  } else {
    LogWarn("Failed to release the lease; it will expire", {{"error", released.error().message}});
  }
}

}  // namespace ringmaster::runtime
