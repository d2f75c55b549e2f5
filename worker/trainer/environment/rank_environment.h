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

// Returns the value of an environment variable; empty or 0 if it is not set.
std::string TextIn(const char* variable);
int NumberIn(const char* variable);

// Returns whether an agent started this process.
bool HasAgent();

// Returns the source of the worlds that the agent announces or, without an agent, of one world of
// only this rank. `clock` must outlive it. Errors are those of AgentMembership::Connect().
Result<std::unique_ptr<MembershipSource>> JoinJob(const Clock& clock);

// Returns the position, which is reported to the page that the agent reads. If a rank cannot report
// it, training works, but hangs are not detected. Call it once per process.
std::shared_ptr<Position> MakePosition();

// kInvalid: the job may have up to `ranks` ranks, and some of them would have no sample in a step.
// `name` is the name of the global batch, as the user wrote it.
Result<void> CheckGlobalBatch(const std::string& name, int64_t global_batch, int ranks);

// Sets the job whose checkpoints are used. Without an agent, checkpoints do not belong to a job.
void NameJob(CheckpointPlace& place);

// Returns CUDA's error if this rank's GPU is unusable now (rank_failure.h). Empty if this rank has
// no GPU: the agent did not assign one, and none was `opened`.
std::optional<GpuFault> FaultOfOwnGpu(bool opened);

}  // namespace ringmaster::trainer
