#pragma once

// Proves from the audit logs of all ranks of a job that no step was lost or repeated, or that steps
// were given up explicitly: if all ranks are lost, training resumes from the latest saved state.
//
// The audit processes worlds in the order of their epochs. Each world adopts the state after some
// step of an earlier world; the steps up to it are committed and later steps are dropped. The
// result is the lineage: steps 1 … N, each with the epoch that computed it. A step counts as
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
  int64_t rolled_back = 0;  // committed steps that were given up, as their ranks' logs say, and
                            // done again from a kept state
  int64_t lost = 0;         // steps or parts of them that were committed and are not in the lineage
  int64_t repeated = 0;     // steps or samples that were used twice
  int64_t disagreeing = 0;  // ranks that say different things, or a state that is not what it was
  int64_t unknown = 0;      // what the logs neither show nor contradict
  std::vector<std::string> sentences;  // one each, the first kMostSentences

  static constexpr std::size_t kMostSentences = 100;
};

// Consecutive committed steps of one world.
struct Segment {
  int64_t first = 0;
  int64_t last = 0;
  Epoch epoch;
  std::vector<std::string> members;
  int64_t full_size = 0;  // as WorldLine has it
};

struct Report {
  int64_t steps = 0;  // committed
  int64_t worlds = 0;
  Findings findings;
  std::vector<Segment> schedule;
  // Checksums of the parameters, and of all shares of a sharded state, after step 0 (as
  // initialised), 1, … as the logs have them.
  std::vector<std::optional<uint64_t>> states;
};

// Thread-safety: one thread.
class Audit {
 public:
  using LogId = std::size_t;

  LogId NewLog(const std::string& name);

  // The next line of a log. kInvalid: no rank writes such a log (a step outside of the world that
  // the log is in, another rank's line, two logs of one member).
  Result<void> Add(LogId log, const AuditLine& line);

  // The log's last line was cut off.
  void Torn(LogId log);

  // `expected_steps`: how many must have been committed; less is unknown, more disagrees.
  Report Conclude(std::optional<int64_t> expected_steps) const;

 private:
  friend class Conclusion;

  // A rank's part of a step that it began.
  struct RankStep {
    Samples samples;
    std::optional<uint64_t> applied;  // the checksum after it
    std::optional<uint64_t> part;     // of its share of the sharded state
  };
  using RankSteps = std::map<int, RankStep>;  // by rank, of those whose logs have it
  struct WorldRecord {
    WorldLine line;  // the first one read; the others must say the same, but for their rank
    std::map<int64_t, RankSteps> steps;
  };
  struct Log {
    std::string name;
    std::string member;  // empty before its first world
    Epoch epoch;
    int rank = 0;
  };
  // The end of a member's log.
  struct Reach {
    Epoch epoch;
    int64_t step = 0;
  };

  Result<void> AddWorld(Log& log, const WorldLine& line);
  Result<void> AddStep(const Log& log, const StepLine& line);

  std::vector<Log> logs_;
  std::map<std::string, Reach> reach_;  // by member
  std::map<Epoch, WorldRecord> worlds_;
  Findings found_;  // while reading
};

}  // namespace ringmaster::audit
