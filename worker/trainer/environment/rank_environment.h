#pragma once

// Configures this process as a rank of a job: converts the variables that the agent sets
// (common/control/pod_contract.h) into the components of a session. ringmaster-train and the
// library (worker/trainer/library) call it at start. It does not affect the training itself.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "worker/trainer/checkpoint/other_checkpoints.h"
#include "worker/trainer/elastic/membership_source.h"
#include "worker/trainer/elastic/world_entry.h"
#include "worker/trainer/gpu/gpu_fault.h"
#include "worker/trainer/telemetry/position.h"

namespace ringmaster::trainer {

// The value of an environment variable; empty or 0 if it is not set.
std::string TextIn(const char* variable);
int NumberIn(const char* variable);

// Whether an agent started this process.
bool HasAgent();

// The worlds that the agent announces. Without an agent: one world of only this rank. `clock` must
// outlive the source. Errors are those of AgentMembership::Connect().
Result<std::unique_ptr<MembershipSource>> JoinJob(const Clock& clock);

// Reports to the page that the agent reads. A rank that cannot report still trains, but hangs are
// not detected. One per process.
std::shared_ptr<Position> MakePosition();

// kInvalid: the job may grow to `ranks` ranks, and some of them would have no sample of a step.
// `name` is the name of the global batch, as the user wrote it.
Result<void> CheckGlobalBatch(const std::string& name, int64_t global_batch, int ranks);

// Sets the job whose checkpoints are on the volume. Without an agent they do not belong to a job.
void NameJob(CheckpointPlace& place);

// CUDA's error of this rank's GPU if that GPU is now unusable (rank_failure.h). Empty if this rank
// has no GPU: the agent assigned none, and none was `opened`.
std::optional<GpuFault> FaultOfOwnGpu(bool opened);

}  // namespace ringmaster::trainer
