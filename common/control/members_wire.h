#pragma once

// A world's members on the wire, at the price of its workers and not of its ranks:
//
//   {"hosts": [{"podUid": "…", "pod": "…", "node": "…", "address": "…",
//               "slots": [0, 1, 2], "start": "3f6c-", "starts": ["1", "1", "4"]}, …],
//    "order": [0, 2, 1, 3, 0, 1]}
//
// A host's slots stand in the order of its ranks; what their starts begin with is said once.
// "order" is pairs: the next so many of that host's members have the next ranks. So ranks count
// from 0 without being named. Private to the codecs of this folder, like wire.h.

#include <string>
#include <vector>

#include "common/control/membership.h"
#include "common/json/json.h"

namespace ringmaster::control {

// The form of such a field (common/json/fields.h). Reads at most kMaxRanks members.
struct ByHost {
  Json Write(const std::vector<Member>& members) const;
  std::string Read(const Json& json, std::vector<Member>& members) const;
};

}  // namespace ringmaster::control
