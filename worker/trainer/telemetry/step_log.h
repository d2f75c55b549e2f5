#pragma once

// The step log: rank 0 writes one JSON object per step and line, and a summary at the end. Users
// read it in the rank's output, and tests and benches parse it; worker/trainer/reference.md lists
// the fields. If rank 0 is lost, the next rank 0 continues with its own log.

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
  int64_t epoch = 0;  // pass over the data the step began in, from 1
  double loss = 0;    // mean over the global batch, before the update
  double samples_per_second = 0;
  double data_ms = 0;
  double compute_ms = 0;
  double communication_ms = 0;  // spent waiting for collectives
  double overlap = 0;           // share of the collectives' time that computing hid, in [0, 1]
  int world_size = 1;
  control::Epoch world_epoch{};  // the world that computed it
};

struct RunSummary {
  int64_t steps = 0;
  int64_t samples = 0;
  int64_t global_batch = 0;
  int world_size = 1;
  double seconds = 0;  // from the start of the first step to the end of the last
  double samples_per_second = 0;
  double time_to_first_step_ms = 0;  // from the start of the process to the first committed step
  double step_ms_median = 0;
  double final_loss = 0;
  double overlap = 0;         // as in StepRecord, of all steps together
  int64_t skipped_steps = 0;  // without an update, as gradients were not finite numbers
  double accuracy = -1;       // held out, in [0, 1]
  int64_t held_out_samples = 0;
};

// How often steps are written: by number of steps or, if that is 0, by time.
struct LogEvery {
  int64_t steps = 1;
  std::chrono::milliseconds time{0};
};

// "100": of so many steps one; "1s", "0.5s": one in so much time.
Result<LogEvery> ParseLogEvery(const std::string& text);

// Selects the steps to write. Single-threaded.
class StepPace {
 public:
  explicit StepPace(const LogEvery& every) : every_(every) {}

  // Whether this step is, of a process that is rank 0. The first of a process or a world is, too.
  bool Due(int64_t step, control::Epoch world, Clock::Time now);

 private:
  const LogEvery every_;
  std::optional<control::Epoch> world_;  // of the step before
  Clock::Time written_{};
};

// Without the newline.
std::string ToJsonLine(const StepRecord& record);
std::string ToJsonLine(const RunSummary& summary);

// Training went on from `held` in this world, because no rank had the state any more.
std::string ToJsonLine(const LocalState& held, control::Epoch world_epoch);

class StepLog {
 public:
  // `path` is a file, "-" for standard output, or "none". kInvalid when the file cannot be written.
  // Ranks of one host may name the same file: only Restart() empties it.
  static Result<StepLog> Open(const std::string& path);

  // Training starts without state, so the log is emptied.
  void Restart();

  // Written out at once, so that a killed rank leaves every line it finished.
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
