#pragma once

// Replays the memberships of a job without its faults. Each member of a schedule is a process: in
// each range of steps, it takes the rank that the member had or sits out, and it changes worlds
// after exactly the same steps as the job. A rank that fails ends the replay, because later steps
// would differ from the job's.

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
