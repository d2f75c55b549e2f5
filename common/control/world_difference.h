#pragma once

// Encodes a world as its difference from the previous one, so that a loss costs a few bytes per
// agent, whatever the number of ranks. Pure functions.

#include <optional>
#include <vector>

#include "common/control/agent_launcher_messages.h"
#include "common/control/membership.h"

namespace ringmaster::control {

// The world `members` of `epoch`, as the difference from `base_members` of `base`:
// members of both keep their order, the others follow them. Nothing where that is not so.
std::optional<ChangeEpoch> DifferenceFrom(const Epoch& base,
                                          const std::vector<Member>& base_members,
                                          const Epoch& epoch, int64_t cohort,
                                          const std::vector<Member>& members);

// The members of `change`'s world by rank, where it builds on this base; nothing where the two do
// not fit.
std::optional<std::vector<Member>> MembersAfter(const std::vector<Member>& base_members,
                                                const ChangeEpoch& change);

}  // namespace ringmaster::control
