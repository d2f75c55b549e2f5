#pragma once

// Settings of random tests, such as the first seed and the number of seeds, come from the
// environment.

#include <cstdint>
#include <cstdlib>

namespace ringmaster {

// Returns the number in an environment variable; `otherwise` if the variable is not set.
inline int64_t NumberFrom(const char* variable, int64_t otherwise) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? otherwise : std::strtoll(value, nullptr, 10);
}

}  // namespace ringmaster
