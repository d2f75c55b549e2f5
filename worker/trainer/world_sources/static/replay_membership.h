#pragma once

// Replays the worlds of a job without its faults. Each member of the schedule is a process. In each
// range of steps, the process has the rank that the member had, or waits if the member had none.
// Worlds change after exactly the same steps as in the job. A rank that fails ends the replay,
// because later steps would differ from the job's.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "worker/trainer/elastic/membership_source.h"
#include "worker/trainer/world_sources/static/membership_schedule.h"

namespace ringmaster::trainer {

struct ReplayOptions {
  std::size_t member = 0;  // index of this process in schedule.members
  int64_t job_steps = 0;   // steps of the whole job, after which the ranks finish together
  std::string address{};   // see World::address
};

// All members share `store`, which must be empty at first. REQUIRES: the schedule has this member.
std::unique_ptr<MembershipSource> MakeReplayMembership(MembershipSchedule schedule,
                                                       ReplayOptions options,
                                                       std::shared_ptr<Store> store);

}  // namespace ringmaster::trainer
