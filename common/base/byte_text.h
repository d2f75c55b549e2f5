#pragma once

// Formats sizes for messages and logs in binary units: "140 GiB", "1.5 MiB", "17 bytes". Pure
// functions. Use plain numbers in output that programs read.

#include <cstdint>
#include <string>

namespace ringmaster {

// Round available amounts down and required amounts up, so that a message never says that data
// fits when it does not.
enum class Rounding { kDown, kUp };

// `bytes` >= 0. Sizes below 10 units have one decimal digit, larger sizes have none.
std::string BytesText(int64_t bytes, Rounding rounding = Rounding::kDown);

// Formats a part of a total in the unit of the total: "41 of 140 GiB". 0 <= `done` <= `all`.
std::string BytesOfText(int64_t done, int64_t all);

}  // namespace ringmaster
