#pragma once

// How a job ended, in the launcher's own words: written to its termination message before it exits,
// read by the operator from the launcher Pod's status (ADR 10). Terminal conditions
// are decided from this alone; a launcher that ended without a verdict was lost, never successful.

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
