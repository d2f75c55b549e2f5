#pragma once

// The order of resourceVersions, as the API guarantees it (KEP-5504): decimal numbers of any
// length, compared within one resource. What is no such number cannot be compared. Used by the
// freshness gate.

#include <compare>
#include <optional>
#include <string_view>

namespace ringmaster::kube {

// Nothing when either is no decimal number without leading zero.
std::optional<std::strong_ordering> CompareResourceVersions(std::string_view a, std::string_view b);

}  // namespace ringmaster::kube
