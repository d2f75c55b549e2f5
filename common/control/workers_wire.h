#pragma once

// The workers of an order on the wire:
//
//   {"pods": "digits-worker-", "nodes": ["node1", "node2"],
//    "rows": [["<Pod UID>", 0, 0], ["<Pod UID>", 1, 1], ["<Pod UID>", 2, -1], …]}
//
// A row is the Pod's UID, its index and the place of its node in "nodes", -1 while it has none. Its
// name is what "pods" says and the index, unless the row has another one as its fourth item. What
// a row has beyond that is ignored. Private to the codecs of this folder, like wire.h.

#include <string>
#include <vector>

#include "common/control/launcher_api.h"
#include "common/json/json.h"

namespace ringmaster::control {

// The form of such a field (common/json/fields.h). Reads at most kMaxRanks workers.
struct InRows {
  Json Write(const std::vector<DesiredWorker>& workers) const;
  std::string Read(const Json& json, std::vector<DesiredWorker>& workers) const;
};

}  // namespace ringmaster::control
