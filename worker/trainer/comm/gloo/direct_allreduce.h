#pragma once

// An allreduce for small data over Gloo's connections. In a ring, pieces are passed on 2(n - 1)
// times, which wakes two threads of every rank each time. Here, all messages are sent at once. Two
// ranks exchange all data. With more ranks, each piece is sent directly to one rank, which reduces
// it in rank order and sends the result to all ranks (direct reduce-scatter and allgather: Chan et
// al., "Collective communication", 2007, §7). All ranks get the same bits.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <gloo/context.h>

#include "worker/trainer/comm/elements.h"

namespace ringmaster::trainer {

// Reduces in place. `received` is scratch memory, which callers should reuse. Throws Gloo's
// exceptions; the contents of `values` are then lost.
void DirectAllReduce(const std::shared_ptr<gloo::Context>& context,
                     std::chrono::milliseconds timeout, uint32_t tag, Elements values, ReduceOp op,
                     std::vector<std::byte>& received);

}  // namespace ringmaster::trainer
