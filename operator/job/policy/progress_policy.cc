#include "operator/job/policy/progress_policy.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

namespace ringmaster::job {

namespace {

// Formats a number for users. Six digits are enough for a loss.
std::string ShortNumber(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

// Formats a rate without an exponent: 41000, 12.3, 0.4. Empty if the value is not a valid rate.
std::string RateText(double rate) {
  if (!(rate >= 0 && rate < 1e15)) return "";
  std::array<char, 32> text{};
  const int decimals = rate >= 100 ? 0 : rate >= 1 ? 1 : 3;
  std::snprintf(text.data(), text.size(), "%.*f", decimals, rate);
  std::string shortened = text.data();
  if (decimals > 0) {
    shortened.erase(shortened.find_last_not_of('0') + 1);
    if (shortened.ends_with('.')) shortened.pop_back();
  }
  return shortened;
}

int64_t RoundMillis(double millis) {
  return std::isfinite(millis) ? std::llround(std::clamp(millis, 0.0, 1e12)) : 0;
}

bool SameRank(const api::Straggler& a, const api::Straggler& b) {
  return a.pod_uid == b.pod_uid && a.rank == b.rank;
}

}  // namespace

api::JobProgress ProgressOf(const control::Progress& progress, double steps_per_second,
                            Clock::WallTime now) {
  api::JobProgress out{.step = progress.step,
                       .total_steps = progress.total_steps,
                       .percent = std::nullopt,
                       .samples_per_second = RateText(progress.samples_per_second),
                       .loss = std::isfinite(progress.loss) ? ShortNumber(progress.loss) : "NaN",
                       .accuracy = progress.accuracy >= 0 ? ShortNumber(progress.accuracy) : "",
                       .estimated_completion_time = ""};
  if (progress.total_steps <= 0) return out;
  const int64_t done = std::clamp<int64_t>(progress.step, 0, progress.total_steps);
  out.percent = PercentDone(done, progress.total_steps);
  if (done == progress.total_steps || !(steps_per_second > 0)) return out;
  const double seconds = static_cast<double>(progress.total_steps - done) / steps_per_second;
  if (seconds < 1e9) {
    out.estimated_completion_time = FormatTime(now + std::chrono::seconds(std::llround(seconds)));
  }
  return out;
}

void ForgetRate(api::TrainingJobStatus& status) {
  if (!status.progress) return;
  status.progress->samples_per_second.clear();
  status.progress->estimated_completion_time.clear();
}

int PercentDone(int64_t done, int64_t total) {
  return static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(total));
}

std::optional<api::CheckpointStatus> CheckpointOf(
    const std::optional<control::CheckpointReport>& newest,
    const std::optional<api::CheckpointStatus>& known, Clock::WallTime now) {
  if (!newest || (known && known->step == newest->step)) return known;
  return api::CheckpointStatus{
      .step = newest->step,
      .time = FormatTime(now - std::chrono::milliseconds(newest->age_millis)),
      .bytes = newest->bytes};
}

std::vector<api::Straggler> StragglersOf(const std::vector<control::Straggler>& reported,
                                         const std::vector<api::Straggler>& known,
                                         Clock::WallTime now) {
  std::vector<api::Straggler> stragglers;
  for (const control::Straggler& report : reported) {
    if (stragglers.size() == control::kMaxStragglers) break;
    const auto age =
        std::chrono::seconds(std::clamp<int64_t>(report.for_seconds, 0, 1'000'000'000));
    api::Straggler straggler{.worker = report.pod,
                             .pod_uid = report.pod_uid,
                             .node = report.node,
                             .rank = report.rank,
                             .step_millis = RoundMillis(report.step_millis),
                             .median_millis = RoundMillis(report.median_millis),
                             .since = FormatTime(now - age)};
    const auto old = std::find_if(known.begin(), known.end(), [&](const api::Straggler& one) {
      return SameRank(one, straggler);
    });
    if (old != known.end()) straggler.since = old->since;
    stragglers.push_back(std::move(straggler));
  }
  return stragglers;
}

bool SameStragglers(const api::TrainingJobStatus& a, const api::TrainingJobStatus& b) {
  return std::equal(a.stragglers.begin(), a.stragglers.end(), b.stragglers.begin(),
                    b.stragglers.end(), SameRank);
}

api::Recovery RecoveryOf(const control::Recovery& recovery) {
  return {.epoch = recovery.epoch.number,
          .cause = recovery.cause,
          .worker = recovery.pod,
          .node = recovery.node,
          .detected_millis = recovery.detected_millis,
          .resumed_millis = recovery.resumed_millis,
          .steps_lost = recovery.steps_lost,
          .from_start = recovery.from_start,
          .ran_millis = recovery.ran_millis};
}

bool HasStepped(const api::TrainingJobSpec& spec, const control::LauncherStatus& answer,
                bool running) {
  if (!spec.InPlace()) return running;
  const int64_t begin = answer.beginning ? answer.beginning->step : 0;
  return answer.progress && answer.progress->step > begin;
}

}  // namespace ringmaster::job
