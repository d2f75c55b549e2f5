#pragma once

// Parses one line of a rank's audit log (worker/trainer/telemetry/audit_log.h). The files are
// untrusted: parsing is safe on any input and reports what is wrong.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/result.h"
#include "common/control/membership.h"

namespace ringmaster::audit {

using control::Epoch;

inline constexpr std::size_t kMaxLineBytes = 4 << 20;
inline constexpr int64_t kMostRanks = 1 << 14;

// [begin, end) of a global batch.
struct Samples {
  int64_t begin = 0;
  int64_t end = 0;

  friend auto operator<=>(const Samples&, const Samples&) = default;
};

// Records that the rank entered a world, with the state that all ranks of the world adopted.
struct WorldLine {
  Epoch epoch;
  int rank = 0;
  int64_t global_batch = 0;
  int64_t full_size = 0;             // ranks that the job wanted; 0: not known
  std::vector<std::string> members;  // "pod/slot/start", by rank
  Epoch adopted_epoch;               // {0, 0} with step 0: the initial state
  int64_t adopted_step = 0;
  // "checkpoint" or "snapshot" if no rank had a state in memory; otherwise empty. If the term of
  // adopted_epoch is 0, the state is from a checkpoint of another run.
  std::string adopted_from;
  uint64_t checksum = 0;
  std::optional<uint64_t> sharded{};  // checksum of the sharded state
};

// Records that the rank began a step (without checksum) or applied it.
struct StepLine {
  Epoch epoch;
  int64_t step = 0;
  int rank = 0;
  Samples samples;
  std::optional<uint64_t> checksum;
  std::optional<uint64_t> part{};  // checksum of the rank's share of the sharded state
};

using AuditLine = std::variant<WorldLine, StepLine>;

// kInvalid names what is wrong. Unknown fields are ignored.
Result<AuditLine> ParseLine(std::string_view text);

}  // namespace ringmaster::audit
