#pragma once

// Parses sizes in the syntax of nccl-tests: 8, 64K, 1M, 8G (powers of 1024).

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace ringmaster::bench {

// Parses a size in bytes. kInvalid: the text is not a valid size; the message quotes the text.
Result<int64_t> ParseSize(const std::string& text);

// Returns the sizes from `begin` to `end`. If `factor` is above 1, each size is `factor` times the
// previous one; otherwise `step` more. REQUIRES: 0 < begin <= end, and factor > 1 or step > 0.
std::vector<int64_t> Sweep(int64_t begin, int64_t end, int64_t step, int64_t factor);

}  // namespace ringmaster::bench
