#pragma once

// The step loop. A step loads data, runs forward and backward, reduces the gradients, updates the
// parameters and logs. After the last step, the ranks measure the held-out accuracy and wait for
// their release. All dependencies are arguments, so tests can run several ranks in one process.

#include <cstdint>
#include <functional>
#include <string>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "worker/trainer/elastic_torch/session.h"
#include "worker/trainer/optim/sgd.h"
#include "worker/trainer/telemetry/step_log.h"
#include "worker/trainer/telemetry/timeline.h"
#include "worker/trainer/workloads/workload.h"

namespace ringmaster::trainer {

struct TrainPlan {
  int64_t steps = 0;
  int64_t global_batch = 0;
  // How often rank 0 logs a step. Rank 0 always logs the first step of a world, the last step, and
  // skipped steps.
  LogEvery log_every{};
  std::function<double()> process_millis{};  // returns the milliseconds since the process started
  bool skip_not_finite =
      false;  // whether to continue without the update after NaN or infinite gradients
  Timeline* timeline = nullptr;  // null: none
};

// Trains, after Session::Join(), until all ranks are released. Rank 0 writes `log`. Returns the
// session's errors; kInternal: LibTorch failed to compute; kInvalid: the loss or gradients are not
// finite (the message names the rank and the parameter).
Result<RunSummary> Train(Workload& workload, Session& session, Sgd& optimizer, StepLog& log,
                         const Clock& clock, const TrainPlan& plan);

}  // namespace ringmaster::trainer
