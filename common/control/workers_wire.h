#pragma once

// The workers of an order on the wire:
//
//   {"pods": "digits-worker-", "nodes": ["node1", "node2"],
//    "rows": [["<Pod UID>", 0, 0], ["<Pod UID>", 1, 1], ["<Pod UID>", 2, -1], …]}
//
// A row is the Pod's UID, its index and the place of its node in "nodes", -1 while it has none. Its
// name is what "pods" says and the index, unless the row has another one as its fourth item. What
// a row has beyond that is ignored. Private to the codecs of this folder, like wire.h.

#include <vector>

#include <nlohmann/json.hpp>

#include "common/control/launcher_api.h"

namespace ringmaster::control::wire {

nlohmann::json WorkersToJson(const std::vector<DesiredWorker>& workers);

// Null, or what is wrong. At most kMaxRanks workers. Safe on any JSON.
const char* WorkersFromJson(const nlohmann::json& json, std::vector<DesiredWorker>& workers);

}  // namespace ringmaster::control::wire
