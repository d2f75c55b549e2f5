#pragma once

// A number with its noun, for messages: "1 worker", "3 workers". Pure.

#include <cstdint>
#include <string>

namespace ringmaster {

// `noun` in the singular; its plural ends in "s".
inline std::string CountText(int64_t number, const char* noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

}  // namespace ringmaster
