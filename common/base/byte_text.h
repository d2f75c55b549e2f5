#pragma once

// Formats sizes for messages and logs in binary units: "140 GiB", "1.5 MiB", "17 bytes". Pure
// functions. Use plain numbers in output that programs read.

#include <cstdint>
#include <string>

namespace ringmaster {

// Sizes are rounded: down for available amounts and up for required amounts, so that a message
// never says that something fits when it does not.
enum class Rounding { kDown, kUp };

// `bytes` >= 0. Sizes below 10 units have one decimal digit, larger sizes have none.
std::string BytesText(int64_t bytes, Rounding rounding = Rounding::kDown);

// Formats a share: "41 of 140 GiB", both in the unit of `all`. 0 <= `done` <= `all`.
std::string BytesOfText(int64_t done, int64_t all);

}  // namespace ringmaster
