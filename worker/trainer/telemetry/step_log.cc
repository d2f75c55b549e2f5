#include "worker/trainer/telemetry/step_log.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <unistd.h>

#include "common/base/log.h"

namespace ringmaster::trainer {
namespace {

// Formats numbers as JSON; values that JSON cannot represent (NaN, infinity) become null.
std::string Number(double value, const char* format) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

}  // namespace

std::string ToJsonLine(const StepRecord& record) {
  return "{\"step\":" + std::to_string(record.step) + ",\"epoch\":" + std::to_string(record.epoch) +
         ",\"loss\":" + Number(record.loss, "%.9g") +
         ",\"samples_per_second\":" + Number(record.samples_per_second, "%.1f") +
         ",\"data_ms\":" + Number(record.data_ms, "%.3f") +
         ",\"compute_ms\":" + Number(record.compute_ms, "%.3f") +
         ",\"communication_ms\":" + Number(record.communication_ms, "%.3f") +
         ",\"overlap\":" + Number(record.overlap, "%.3f") +
         ",\"world_size\":" + std::to_string(record.world_size) + ",\"world_epoch\":[" +
         std::to_string(record.world_epoch.term) + "," + std::to_string(record.world_epoch.number) +
         "]}";
}

std::string ToJsonLine(const RunSummary& summary) {
  return "{\"summary\":{\"steps\":" + std::to_string(summary.steps) +
         ",\"samples\":" + std::to_string(summary.samples) +
         ",\"global_batch\":" + std::to_string(summary.global_batch) +
         ",\"world_size\":" + std::to_string(summary.world_size) +
         ",\"seconds\":" + Number(summary.seconds, "%.3f") +
         ",\"samples_per_second\":" + Number(summary.samples_per_second, "%.1f") +
         ",\"time_to_first_step_ms\":" + Number(summary.time_to_first_step_ms, "%.1f") +
         ",\"step_ms_median\":" + Number(summary.step_ms_median, "%.3f") +
         ",\"overlap\":" + Number(summary.overlap, "%.3f") +
         ",\"skipped_steps\":" + std::to_string(summary.skipped_steps) +
         ",\"final_loss\":" + Number(summary.final_loss, "%.9g") +
         ",\"accuracy\":" + Number(summary.accuracy, "%.4f") +
         ",\"held_out_samples\":" + std::to_string(summary.held_out_samples) + "}}";
}

std::string ToJsonLine(const LocalState& held, control::Epoch world_epoch) {
  const auto pair = [](control::Epoch epoch) {
    return "[" + std::to_string(epoch.term) + "," + std::to_string(epoch.number) + "]";
  };
  return "{\"resumed\":{\"step\":" + std::to_string(held.version.step) + ",\"from\":\"" +
         NameOf(held.origin) + "\",\"epoch\":" + pair(held.EpochOfRun()) +
         ",\"world_epoch\":" + pair(world_epoch) + "}}";
}

Result<LogEvery> ParseLogEvery(const std::string& text) {
  constexpr int64_t kLargestInterval = int64_t{1} << 40;
  constexpr double kMostSeconds = 86'400;
  const bool timed = text.ends_with('s');
  const char* const end = text.data() + text.size() - (timed ? 1 : 0);
  if (timed) {
    double seconds = 0;
    const auto [stop, error] = std::from_chars(text.data(), end, seconds);
    if (error == std::errc() && stop == end && seconds >= 0.001 && seconds <= kMostSeconds) {
      return LogEvery{0, std::chrono::milliseconds(std::llround(seconds * 1000))};
    }
  } else {
    int64_t steps = 0;
    const auto [stop, error] = std::from_chars(text.data(), end, steps);
    if (error == std::errc() && stop == end && steps >= 1 && steps <= kLargestInterval) {
      return LogEvery{steps, {}};
    }
  }
  return Error{
      ErrorKind::kInvalid,
      "\"" + text + "\" must be a number of steps, for example 100, or a time, for example 1s"};
}

bool StepPace::Due(int64_t step, control::Epoch world, Clock::Time now) {
  const bool first = world_ != world;
  world_ = world;
  const bool due = every_.steps > 0 ? step % every_.steps == 0 : now - written_ >= every_.time;
  if (!first && !due) return false;
  written_ = now;
  return true;
}

Result<StepLog> StepLog::Open(const std::string& path) {
  StepLog log;
  if (path == "none") return log;
  log.file_.reset(path == "-" ? stdout : std::fopen(path.c_str(), "a"));
  if (log.file_ == nullptr) {
    return Error{ErrorKind::kInvalid,
                 "while opening the step log " + path + ": " + std::strerror(errno)};
  }
  return log;
}

void StepLog::Restart() {
  if (file_ == nullptr || file_.get() == stdout) return;
  if (::ftruncate(::fileno(file_.get()), 0) != 0) {
    LogWarn("Failed to truncate the step log", {{"reason", std::strerror(errno)}});
  }
}

void StepLog::Write(const std::string& line) {
  if (file_ == nullptr) return;
  std::fputs((line + "\n").c_str(), file_.get());
  std::fflush(file_.get());
}

}  // namespace ringmaster::trainer
