#pragma once

// The membership of ranks without an agent, such as ranks started by hand: a single world.

#include <memory>

#include "worker/trainer/elastic/membership_source.h"

namespace ringmaster::trainer {

// Creates a world that never changes, of one process or of `world.size` ranks that share a store.
std::unique_ptr<MembershipSource> MakeSingleMembership();
std::unique_ptr<MembershipSource> MakeStaticMembership(World world, std::shared_ptr<Store> store);

}  // namespace ringmaster::trainer
