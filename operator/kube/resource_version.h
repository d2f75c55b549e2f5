#pragma once

// Compares resourceVersions as the API guarantees (KEP-5504): they are decimal numbers of any
// length, and those of one resource can be compared. Other values cannot be compared. Used by the
// freshness gate and for the terms of leaders.

#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ringmaster::kube {

// Compares two versions. Returns nothing if either is not a decimal number without leading zeros.
std::optional<std::strong_ordering> CompareResourceVersions(std::string_view a, std::string_view b);

// Returns the version as a number, or nothing if it is not a number that fits in an int64_t.
std::optional<int64_t> NumberOf(std::string_view version);

}  // namespace ringmaster::kube
