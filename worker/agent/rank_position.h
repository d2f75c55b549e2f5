#pragma once

// What the launcher is told of a rank, from what the rank says in its page. Pure; used by the agent
// alone.

#include <cstdint>

#include "common/control/membership.h"
#include "worker/agent/rank_page.h"
#include "worker/agent/slots.h"

namespace ringmaster::agent {

// `now` is of the page's clock (MonotonicNanos), in nanoseconds. Whether the rank is stopped the
// page cannot say: false.
control::RankPosition PositionOf(const Slots::Standing& standing, const RankPage::Reading& reading,
                                 std::int64_t now);

}  // namespace ringmaster::agent
