#pragma once

// RINGMASTER_PATIENCE, 1 unless it is set: how many times as long things may take on a machine that
// others keep busy. Anyone who waits with a limit multiplies it.

#include <algorithm>
#include <cstdlib>

namespace ringmaster {

inline int Patience() {
  const char* const text = std::getenv("RINGMASTER_PATIENCE");
  return text == nullptr ? 1 : std::max(1, std::atoi(text));
}

}  // namespace ringmaster
