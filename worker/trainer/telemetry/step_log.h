#pragma once

// The step log: rank 0 writes a line with a JSON object per step, and a summary at the end. Users
// read it in the rank's output, and tests and benchmarks parse it; worker/trainer/reference.md
// lists the fields. Every rank opens a log. If rank 0 is lost, the new rank 0 writes to its log.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/control/membership.h"
#include "worker/trainer/elastic/state_version.h"

namespace ringmaster::trainer {

struct StepRecord {
  int64_t step = 0;   // from 1
  int64_t epoch = 0;  // pass over the data in which the step began, from 1
  double loss = 0;    // mean over the global batch, before the update
  double samples_per_second = 0;
  double data_ms = 0;
  double compute_ms = 0;
  double communication_ms = 0;  // time spent waiting for collectives
  double overlap = 0;           // share of collectives' time that overlaps computation, in [0, 1]
  int world_size = 1;
  control::Epoch world_epoch{};  // the world that computed the step
};

struct RunSummary {
  int64_t steps = 0;
  int64_t samples = 0;
  int64_t global_batch = 0;
  int world_size = 1;
  double seconds = 0;  // time from the start of the first step to the end of the last step
  double samples_per_second = 0;
  double time_to_first_step_ms = 0;  // time from the process's start to the end of its first step
  double step_ms_median = 0;
  double final_loss = 0;
  double overlap = 0;         // as in StepRecord, but over all steps
  int64_t skipped_steps = 0;  // steps without update because gradients were not finite
  double accuracy = -1;       // share of held-out samples with the right result, in [0, 1]
  int64_t held_out_samples = 0;
};

// The interval at which steps are written: a number of steps or, if it is 0, a time.
struct LogEvery {
  int64_t steps = 1;
  std::chrono::milliseconds time{0};
};

// "100" writes every hundredth step; "1s" or "0.5s" writes one step per period.
Result<LogEvery> ParseLogEvery(const std::string& text);

// Selects the steps to write. Not thread-safe.
class StepPace {
 public:
  explicit StepPace(const LogEvery& every) : every_(every) {}

  // Returns whether rank 0 must write this step. This is always true for a world's first step.
  bool Due(int64_t step, control::Epoch world, Clock::Time now);

 private:
  const LogEvery every_;
  std::optional<control::Epoch> world_;  // world of the previous step
  Clock::Time written_{};
};

// These functions return a line without a newline.
std::string ToJsonLine(const StepRecord& record);
std::string ToJsonLine(const RunSummary& summary);

// Returns a line that reports that training resumed from `held`, as no rank had a state in memory.
std::string ToJsonLine(const LocalState& held, control::Epoch world_epoch);

class StepLog {
 public:
  // `path` is a file, "-" for standard output, or "none". kInvalid: the file cannot be written.
  // Ranks on a host may use the same file, because only Restart() empties it.
  static Result<StepLog> Open(const std::string& path);

  // Empties the log. Call it if training starts without a saved state.
  void Restart();

  // Writes and flushes a line, so that the file also has the last lines of a killed rank.
  void Write(const std::string& line);

 private:
  struct Close {
    void operator()(std::FILE* file) const {
      if (file != stdout) std::fclose(file);
    }
  };
  std::unique_ptr<std::FILE, Close> file_;  // null: no log
};

}  // namespace ringmaster::trainer
