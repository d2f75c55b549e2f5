#pragma once

// Computes MASTER_PORT, the port at which the processes of a world meet on rank 0's address.
// Launcher and agents compute the same port without exchanging messages.

#include <string_view>

#include "common/control/membership.h"

namespace ringmaster::control {

// Returns a different port for each world, so that processes do not connect to processes of the
// previous world. Two jobs on one node's network rarely get the same port. The ports are below
// those of Services (30000) and of outgoing connections.
int MasterPortOf(std::string_view job_uid, const Epoch& epoch);

}  // namespace ringmaster::control
