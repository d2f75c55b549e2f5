#pragma once

// Configures this process as a rank of a job: converts the variables that the agent sets
// (common/control/pod_contract.h) into the components of a session. ringmaster-train and the
// library (worker/trainer/library) call these functions at start; none affects the training.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "worker/trainer/checkpoint/checkpoint_paths.h"
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
// only this rank. `clock` must outlive the source. Errors: see AgentMembership::Connect().
Result<std::unique_ptr<MembershipSource>> JoinJob(const Clock& clock);

// Returns an object that writes this rank's position to the page that the agent reads. If the page
// cannot be opened, training works, but the agent does not detect hangs. Call it once per process.
std::shared_ptr<Position> MakePosition();

// Returns kInvalid if the global batch has fewer samples than `ranks`, the maximum number of ranks
// of the job. `name` is the name of the global batch, as the user wrote it.
Result<void> CheckGlobalBatch(const std::string& name, int64_t global_batch, int ranks);

// Sets in `place` the job that owns the checkpoints. Without an agent, no job owns them.
void NameJob(CheckpointPlace& place);

// Returns CUDA's error if this rank has a GPU that is unusable now (rank_failure.h). The rank has a
// GPU if the agent assigned one to it or, as `opened` says, this process opened one.
std::optional<GpuFault> FaultOfOwnGpu(bool opened);

}  // namespace ringmaster::trainer
