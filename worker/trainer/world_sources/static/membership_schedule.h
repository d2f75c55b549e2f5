#pragma once

// The members that computed each step of a job, as written by `ringmaster-audit --schedule`
// (worker/audit/report.h): one line per range of steps that one world computed. Used by
// replay_membership.h. The file is not trusted: parsing is safe; errors name the problem and line.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/control/membership.h"

namespace ringmaster::trainer {

struct ScheduledRun {
  int64_t first = 0;  // first step of the run, counted from 1
  int64_t last = 0;
  control::Epoch epoch;
  std::vector<std::string> members;  // by rank
  int full_size = 0;                 // the job's desired number of ranks; 0: unknown
};

// The runs contain steps 1 … N without gaps, and their epochs increase. Each run has a member that
// computed the previous steps, and thus has the state.
struct MembershipSchedule {
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  static constexpr std::size_t kMostRanks = std::size_t{1} << 14;

  std::vector<ScheduledRun> runs;    // at least one
  std::vector<std::string> members;  // all members, in the order in which they first occur in runs

  int64_t steps() const { return runs.back().last; }
};

// Returns the schedule in `text`. kInvalid: the message names `file` and the line.
Result<MembershipSchedule> ParseMembershipSchedule(std::string_view text, const std::string& file);
Result<MembershipSchedule> ReadMembershipSchedule(const std::string& file);

}  // namespace ringmaster::trainer
