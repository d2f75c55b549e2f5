#pragma once

// Formats sizes for messages and logs in binary units: "140 GiB", "1.5 MiB", "17 bytes". Pure
// functions. Output for programs contains plain numbers instead.

#include <cstdint>
#include <string>

namespace ringmaster {

// Two digits are enough, so a size is rounded: down for what there is, up for what is needed, so
// that a text never says that something fits which does not.
enum class Rounding { kDown, kUp };

// `bytes` >= 0. One digit after the point below 10 units, none from there on.
std::string BytesText(int64_t bytes, Rounding rounding = Rounding::kDown);

// "41 of 140 GiB": both in the unit of `all`. 0 <= `done` <= `all`.
std::string BytesOfText(int64_t done, int64_t all);

}  // namespace ringmaster
