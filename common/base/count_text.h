#pragma once

// Formats a number with its noun for messages: "1 worker", "3 workers". Pure functions.

#include <cstdint>
#include <string>

namespace ringmaster {

// `noun` is singular; its plural must end in "s".
inline std::string CountText(int64_t number, const char* noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

// Formats a number with noun and verb: "1 worker is", "3 workers are".
inline std::string CountText(int64_t number, const char* noun, const char* of_one,
                             const char* of_more) {
  return CountText(number, noun) + " " + (number == 1 ? of_one : of_more);
}

// Describes all items of a group: "its one rank", "all 3 ranks".
inline std::string AllText(int64_t number, const char* noun) {
  return number == 1 ? std::string("its one ") + noun : "all " + CountText(number, noun);
}

// Formats how often something happened: "1 time", "3 times in a row".
inline std::string TimesText(int64_t number) {
  return CountText(number, "time") + (number == 1 ? "" : " in a row");
}

}  // namespace ringmaster
