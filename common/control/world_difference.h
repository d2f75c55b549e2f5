#pragma once

// Encodes a world as its difference from the previous one, so that a loss costs a few bytes per
// agent, regardless of the number of ranks. Pure functions.

#include <optional>
#include <vector>

#include "common/control/agent_launcher_messages.h"
#include "common/control/membership.h"

namespace ringmaster::control {

// Describes the world `members` of `epoch` by its difference from `base_members` of `base`. Returns
// nullopt if the first of `members` is not in `base_members`.
std::optional<ChangeEpoch> DifferenceFrom(const Epoch& base,
                                          const std::vector<Member>& base_members,
                                          const Epoch& epoch, int64_t cohort,
                                          const std::vector<Member>& members);

// Returns the members of `change`'s world, ordered by rank. Returns nullopt if `change` does not
// fit `base_members`.
std::optional<std::vector<Member>> MembersAfter(const std::vector<Member>& base_members,
                                                const ChangeEpoch& change);

}  // namespace ringmaster::control
