// Plays random schedules of user actions and faults.
//
// RINGMASTER_SEED is the first seed (default 1), RINGMASTER_SEEDS the number of seeds (default 25;
// `make soak` plays 200). A failed schedule is printed with its seed. Set this seed and
// RINGMASTER_SEEDS=1 to repeat only that schedule.

#include "tests/fakes/number_from.h"
#include "tests/integration/schedule_player.h"

namespace ringmaster::testing {
namespace {

using ScheduleTest = SchedulePlayer;

TEST_F(ScheduleTest, EveryJobComesToWhatWasAskedOfIt) {
  const uint64_t first = NumberFrom("RINGMASTER_SEED", 1);
  const uint64_t count = NumberFrom("RINGMASTER_SEEDS", 25);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Schedule schedule = DrawSchedule(seed);
    Play(schedule);
    ASSERT_FALSE(HasFailure()) << TextOf(schedule) << "repeat it with RINGMASTER_SEED=" << seed
                               << " RINGMASTER_SEEDS=1";
  }
}

}  // namespace
}  // namespace ringmaster::testing
