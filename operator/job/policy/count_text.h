#pragma once

// A number with its noun, for messages: "1 worker", "3 workers". Used by the policies that write
// them.

#include <string>

namespace ringmaster::job {

inline std::string CountText(int number, const char* noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

}  // namespace ringmaster::job
