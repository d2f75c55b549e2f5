#pragma once

// Compares resourceVersions as the API guarantees (KEP-5504): they are decimal numbers of any
// length, comparable within one resource. Other values cannot be compared. Used by the freshness
// gate and for the terms of leaders.

#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ringmaster::kube {

// Empty if either is not a decimal number without leading zeros.
std::optional<std::strong_ordering> CompareResourceVersions(std::string_view a, std::string_view b);

// As a number; empty if it is not one or exceeds an int64_t.
std::optional<int64_t> NumberOf(std::string_view version);

}  // namespace ringmaster::kube
