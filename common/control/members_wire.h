#pragma once

// The JSON encoding of a world's members. Its size depends on the number of workers, not ranks:
//
//   {"hosts": [{"podUid": "…", "pod": "…", "node": "…", "address": "…",
//               "slots": [0, 1, 2], "start": "3f6c-", "starts": ["1", "1", "4"]}, …],
//    "order": [0, 2, 1, 3, 0, 1]}
//
// A host lists its slots in the order of their ranks. "start" is the common prefix of its "starts".
// "order" consists of pairs of a host and a count: the next `count` ranks are the host's next
// members. Private to the codecs of this folder, like wire.h.

#include <string>
#include <vector>

#include "common/control/membership.h"
#include "common/json/json.h"

namespace ringmaster::control {

// The form of a field with members (common/json/fields.h). Reads at most kMaxRanks of them.
struct ByHost {
  Json Write(const std::vector<Member>& members) const;
  std::string Read(const Json& json, std::vector<Member>& members) const;
};

}  // namespace ringmaster::control
