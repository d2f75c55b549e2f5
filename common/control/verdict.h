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
    4096;  // Kubernetes' limit of one container's termination message

struct Verdict {
  bool succeeded = false;
  std::string reason;   // of reasons.h; of a success empty, or AlreadyComplete
  std::string message;  // for people: which worker, node, rank, why, what to do
  Epoch epoch;
  int world_size = 0;
  std::optional<Progress> progress;
  std::optional<CheckpointReport> checkpoint;
  std::optional<Beginning> beginning;
  std::optional<RankExit> first_failure;
  int clean_exits = 0;  // ranks of the last epoch that ended with code 0
};

// JSON of at most kMaxVerdictBytes: last lines, then the message, are shortened until it fits.
std::string EncodeVerdict(const Verdict& verdict);
Result<Verdict> DecodeVerdict(std::string_view text);

}  // namespace ringmaster::control
