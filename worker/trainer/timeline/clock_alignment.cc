#include "worker/trainer/timeline/clock_alignment.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace ringmaster::trainer {

Result<int64_t> AlignClocks(Communicator& communicator, const Clock& clock, int64_t offset,
                            Deadline deadline) {
  constexpr std::size_t kBarriers = 5;
  if (communicator.rank() != 0) offset = 0;
  std::array<int64_t, kBarriers> differences{};
  std::vector<int64_t> times(static_cast<std::size_t>(communicator.size()));
  for (int64_t& difference : differences) {
    if (auto met = communicator.Barrier(deadline)->Wait(); !met.ok()) return met.error();
    const int64_t now =
        std::chrono::duration_cast<std::chrono::nanoseconds>(clock.Now().time_since_epoch())
            .count() +
        offset;
    const auto told = communicator.AllGather(std::as_bytes(std::span(&now, 1)),
                                             std::as_writable_bytes(std::span(times)), deadline);
    if (auto gathered = WaitConfirmed(communicator, told); !gathered.ok()) return gathered.error();
    difference = times[0] - now;
  }
  if (communicator.rank() == 0) return offset;
  std::sort(differences.begin(), differences.end());
  return differences[kBarriers / 2];
}

}  // namespace ringmaster::trainer
