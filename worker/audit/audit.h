#pragma once

// Proves from the audit logs of all ranks of a job that no step was lost or repeated. Reports steps
// that were rolled back because all ranks were lost and training resumed from a saved state.
//
// The audit processes worlds in the order of their epochs. Each world adopts the state after some
// step of an earlier world; the steps up to that step are committed and later steps are dropped.
// The result is the lineage: steps 1 … N, each with the epoch that computed it. A step counts as
// committed when a later world adopted it, when a rank applied the next step, or when all ranks of
// its world applied it. The logs either prove a claim, contradict it (lost, repeated, disagreeing),
// or leave it open because a log is missing or ends too early (unknown).

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "worker/audit/audit_line.h"

namespace ringmaster::audit {

struct Findings {
  int64_t rolled_back = 0;  // committed steps that were rolled back explicitly:
                            // the ranks' logs say that training resumed from a saved state
  int64_t lost = 0;         // committed steps, or parts of them, that are missing from the lineage
  int64_t repeated = 0;     // steps or samples that were used twice
  int64_t disagreeing = 0;  // ranks that contradict each other, or a state that does not match
  int64_t unknown = 0;      // claims that the logs neither prove nor contradict
  std::vector<std::string> sentences;  // one for each finding, at most kMostSentences

  static constexpr std::size_t kMostSentences = 100;
};

// Consecutive committed steps of one world.
struct Segment {
  int64_t first = 0;
  int64_t last = 0;
  Epoch epoch;
  std::vector<std::string> members;
  int64_t full_size = 0;  // see WorldLine
};

struct Report {
  int64_t steps = 0;  // number of committed steps
  int64_t worlds = 0;
  Findings findings;
  std::vector<Segment> schedule;
  // Checksums of the parameters and of all shares of a sharded state, by step. Step 0 is the
  // initial state. Empty where the logs do not contain a checksum.
  std::vector<std::optional<uint64_t>> states;
};

// Not thread-safe.
class Audit {
 public:
  using LogId = std::size_t;

  LogId NewLog(const std::string& name);

  // Adds the next line of a log. kInvalid: a rank cannot have written this log (a step outside of
  // the log's current world, a line of another rank, two logs of one member).
  Result<void> Add(LogId log, const AuditLine& line);

  // Records that the last line of the log was cut off.
  void Torn(LogId log);

  // Expected steps that are not committed count as unknown, additional steps as disagreeing.
  Report Conclude(std::optional<int64_t> expected_steps) const;

 private:
  friend class Conclusion;

  // A rank's part of one step, from its log.
  struct RankStep {
    Samples samples;
    std::optional<uint64_t> applied;  // checksum of the state after the update
    std::optional<uint64_t> part;     // checksum of its share of the sharded state
  };
  using RankSteps = std::map<int, RankStep>;  // by rank, for ranks whose logs contain the step
  struct WorldRecord {
    WorldLine line;  // the first line read; lines of other ranks must match it except for the rank
    std::map<int64_t, RankSteps> steps;
  };
  struct Log {
    std::string name;
    std::string member;  // empty before the log's first world
    Epoch epoch;
    int rank = 0;
  };
  // The last epoch and step in a member's log.
  struct Reach {
    Epoch epoch;
    int64_t step = 0;
  };

  Result<void> AddWorld(Log& log, const WorldLine& line);
  Result<void> AddStep(const Log& log, const StepLine& line);

  std::vector<Log> logs_;
  std::map<std::string, Reach> reach_;  // by member
  std::map<Epoch, WorldRecord> worlds_;
  Findings found_;  // problems that were found while reading the logs
};

}  // namespace ringmaster::audit
