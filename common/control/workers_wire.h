#pragma once

// The JSON encoding of an order's workers:
//
//   {"pods": "digits-worker-", "nodes": ["node1", "node2"],
//    "rows": [["<Pod UID>", 0, 0], ["<Pod UID>", 1, 1], ["<Pod UID>", 2, -1], …]}
//
// A row contains the Pod's UID, its index, and the index of its node in "nodes", or -1 if it has no
// node. The Pod's name is "pods" followed by the index, unless the row has a name as its fourth
// item. Readers ignore further items. Private to the codecs of this folder, like wire.h.

#include <string>
#include <vector>

#include "common/control/launcher_api.h"
#include "common/json/json.h"

namespace ringmaster::control {

// The form of a field with workers (common/json/fields.h). Reads at most kMaxRanks of them.
struct InRows {
  Json Write(const std::vector<DesiredWorker>& workers) const;
  std::string Read(const Json& json, std::vector<DesiredWorker>& workers) const;
};

}  // namespace ringmaster::control
