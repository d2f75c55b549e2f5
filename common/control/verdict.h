#pragma once

// The launcher's verdict: how the job ended. The launcher writes it to its termination message, and
// the operator reads it from the launcher Pod's status (ADR 10). Terminal conditions depend only on
// the verdict: a launcher that ends without one counts as lost, never as successful.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/control/membership.h"
#include "common/control/reasons.h"

namespace ringmaster::control {

inline constexpr std::size_t kMaxVerdictBytes =
    4096;  // Kubernetes' limit for the termination message of one container

struct Verdict {
  bool succeeded = false;
  std::string reason;   // from reasons.h; on success empty or AlreadyComplete
  std::string message;  // for users: the worker, node and rank, the cause, and what to do
  Epoch epoch;
  int world_size = 0;
  std::optional<Progress> progress;
  std::optional<CheckpointReport> checkpoint;
  std::optional<Beginning> beginning;
  std::optional<RankExit> first_failure;
  int clean_exits = 0;  // the number of ranks of the last epoch that exited with code 0
};

// Returns JSON of at most kMaxVerdictBytes. Shortens the stack, last lines and message to fit.
std::string EncodeVerdict(const Verdict& verdict);
Result<Verdict> DecodeVerdict(std::string_view text);

}  // namespace ringmaster::control
