#pragma once

// An allreduce for small data over Gloo's connections. A ring passes pieces on 2(n - 1) times, and
// each pass wakes two threads of every rank. Here all messages are sent at once: two ranks exchange
// all data; otherwise each piece goes directly to the rank that reduces it, and the result from
// there to all ranks (direct reduce-scatter and allgather: Chan et al., "Collective communication",
// 2007, §7). Pieces are reduced in the order of the ranks, so all ranks get the same bits.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <gloo/context.h>

#include "worker/trainer/comm/elements.h"

namespace ringmaster::trainer {

// Reduces in place. `received` is scratch memory, which should be reused. Throws what Gloo throws;
// the content of `values` is then lost.
void DirectAllReduce(const std::shared_ptr<gloo::Context>& context,
                     std::chrono::milliseconds timeout, uint32_t tag, Elements values, ReduceOp op,
                     std::vector<std::byte>& received);

}  // namespace ringmaster::trainer
