#pragma once

// The step loop: data, forward, backward and reduction, update and log until the last step,
// followed by the held-out accuracy and the release of all ranks. All dependencies are arguments,
// so that tests can run several ranks in one process.

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
  // How often rank 0 logs a step; the first of a world, the last, and skipped ones are always
  // logged.
  LogEvery log_every{};
  std::function<double()> process_millis{};  // since the process started
  bool skip_not_finite =
      false;  // continue after a step with NaN or infinity, skipping its parameter update
  Timeline* timeline = nullptr;  // null: none
};

// Runs on a joined session until every rank was released; rank 0 writes `log`.
// The errors are the session's, kInternal when LibTorch refused to compute, or kInvalid when loss
// or gradients are not finite numbers: it names the rank and the parameter.
Result<RunSummary> Train(Workload& workload, Session& session, Sgd& optimizer, StepLog& log,
                         const Clock& clock, const TrainPlan& plan);

}  // namespace ringmaster::trainer
