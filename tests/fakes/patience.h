#pragma once

// RINGMASTER_PATIENCE, 1 by default, is the factor by which tests lengthen time limits on a busy
// machine. Multiply each time limit by Patience().

#include <algorithm>
#include <cstdlib>

namespace ringmaster {

inline int Patience() {
  const char* const text = std::getenv("RINGMASTER_PATIENCE");
  return text == nullptr ? 1 : std::max(1, std::atoi(text));
}

}  // namespace ringmaster
