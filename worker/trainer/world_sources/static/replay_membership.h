#pragma once

// Replays the memberships of a job without its faults: each member of a schedule is a process,
// which takes in each run of steps the rank that the member had there, or sits it out, and changes
// worlds after exactly the steps after which the job did. A rank that fails ends the replay, since
// what followed would be no replay any more.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "worker/trainer/elastic/membership_source.h"
#include "worker/trainer/world_sources/static/membership_schedule.h"

namespace ringmaster::trainer {

struct ReplayOptions {
  std::size_t member = 0;  // which of schedule.members this process is
  int64_t job_steps = 0;   // of the whole job: after that step the ranks finish together
  std::string address{};   // as World::address
};

// `store` is shared by all members, and empty at the start. REQUIRES: the schedule has that member.
std::unique_ptr<MembershipSource> MakeReplayMembership(MembershipSchedule schedule,
                                                       ReplayOptions options,
                                                       std::shared_ptr<Store> store);

}  // namespace ringmaster::trainer
