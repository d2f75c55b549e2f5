#pragma once

// Computes MASTER_PORT, the port at which the processes of a world meet on rank 0's address.
// Launcher and agents compute the same port without exchanging messages.

#include <string_view>

#include "common/control/membership.h"

namespace ringmaster::control {

// Another one for each world, so that nothing meets what is left of the last one. Two jobs on one
// node's network mostly do not share it. Below the ports of Services (30000) and of outgoing
// connections.
int MasterPortOf(std::string_view job_uid, const Epoch& epoch);

}  // namespace ringmaster::control
