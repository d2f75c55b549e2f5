#pragma once

// Maps the kinds of faults that a program can inject to the names that its --faults accepts. The
// tables are in chaos/schedule.cc and any_program/faults.cc.

#include <array>
#include <cstddef>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace ringmaster::bench {

template <typename Kind, std::size_t N>
struct FaultNames {
  std::array<std::pair<Kind, const char*>, N> names;

  const char* Of(Kind kind) const {
    for (const auto& [known, name] : names) {
      if (known == kind) return name;
    }
    return "";
  }

  // Returns all names, separated by commas.
  std::string All() const {
    std::string all;
    for (const auto& [kind, name] : names) all += (all.empty() ? "" : ",") + std::string(name);
    return all;
  }

  // Parses a list of names. kInvalid: a word is not a name; the message contains it.
  Result<std::vector<Kind>> Parse(const std::string& comma_separated) const {
    std::vector<Kind> kinds;
    std::istringstream words(comma_separated);
    for (std::string word; std::getline(words, word, ',');) {
      const std::size_t before = kinds.size();
      for (const auto& [kind, name] : names) {
        if (word == name) kinds.push_back(kind);
      }
      if (kinds.size() == before) {
        return Error{ErrorKind::kInvalid, "unknown fault '" + word + "'; known faults: " + All()};
      }
    }
    if (kinds.empty()) return Error{ErrorKind::kInvalid, "no fault is named"};
    return kinds;
  }
};

}  // namespace ringmaster::bench
