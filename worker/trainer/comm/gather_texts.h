#pragma once

// Texts of any length from all ranks to rank 0. Every rank of the world calls it.

#include <string>
#include <vector>

#include "common/base/result.h"
#include "worker/trainer/comm/communicator.h"

namespace ringmaster::trainer {

// On rank 0 every rank's text, by rank; empty on the others.
Result<std::vector<std::string>> GatherTexts(Communicator& communicator, const std::string& mine,
                                             Deadline deadline);

}  // namespace ringmaster::trainer
