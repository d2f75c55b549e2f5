#include "operator/job/model/foreign_times.h"

#include <algorithm>
#include <ctime>
#include <iomanip>
#include <sstream>
#include <utility>

namespace ringmaster::job {

std::optional<Clock::WallTime> ParseTime(const std::string& text) {
  std::tm fields{};
  std::istringstream in(text);
  in >> std::get_time(&fields, "%Y-%m-%dT%H:%M:%S");
  if (in.fail()) return std::nullopt;
  // Limit times to the years 1970 to 2200, so that differences in nanoseconds do not overflow.
  constexpr std::time_t kLast = 7'258'118'400;
  return std::chrono::system_clock::from_time_t(std::clamp<std::time_t>(timegm(&fields), 0, kLast));
}

std::string NotAfter(const std::string& text, const std::string& now) {
  return ParseTime(text) && text <= now ? text : now;  // RFC 3339 in UTC sorts as text
}

std::shared_ptr<const api::TrainingJob> WithoutFutureTimes(
    std::shared_ptr<const api::TrainingJob> job, Clock::WallTime now) {
  const std::string latest = FormatTime(now);
  api::TrainingJobStatus past = job->status;
  const auto clamp = [&](std::string& time) {
    if (time > latest) time = latest;
  };
  clamp(past.start_time);
  clamp(past.first_step_time);
  clamp(past.completion_time);
  for (api::Condition& condition : past.conditions) clamp(condition.last_transition_time);
  for (api::Failure& failure : past.failures) clamp(failure.time);
  for (api::Straggler& straggler : past.stragglers) clamp(straggler.since);
  if (past.checkpoint) clamp(past.checkpoint->time);
  if (past.crashes) clamp(past.crashes->time);
  if (past == job->status) return job;
  auto corrected = std::make_shared<api::TrainingJob>(*job);
  corrected->status = std::move(past);
  return corrected;
}

}  // namespace ringmaster::job
