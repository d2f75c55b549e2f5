#pragma once

// Agrees on whether the ranks of a world share memory: rank 0 creates a segment, the others try to
// map it, and each publishes the result, with a reason if it failed, in the world's store.

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "worker/trainer/comm/shared_memory/meeting.h"
#include "worker/trainer/comm/shared_memory/segment.h"
#include "worker/trainer/comm/world.h"

namespace ringmaster::trainer {

struct SharedWorld {
  std::unique_ptr<Segment> segment{};    // null: the ranks do not share memory
  std::vector<PeerProcess> processes{};  // one per rank if there is a segment
  std::string why_not{};                 // why there is no segment; the same on every rank
};

// Returns what all ranks agreed on; ranks share memory only if `want` is true on every rank. An
// error means that ranks did not answer; if only one did not, `missing` becomes its number. Call it
// on every rank with the same `bytes`. Blocks at most until the deadline.
Result<SharedWorld> AgreeOnMemory(const World& world, bool want, std::size_t bytes,
                                  Deadline deadline, std::atomic<int>& missing);

}  // namespace ringmaster::trainer
