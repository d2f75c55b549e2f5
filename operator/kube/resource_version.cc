#include "operator/kube/resource_version.h"

#include <algorithm>
#include <charconv>

namespace ringmaster::kube {
namespace {

bool Comparable(std::string_view version) {
  return !version.empty() && version.front() != '0' &&
         std::all_of(version.begin(), version.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::optional<std::strong_ordering> CompareResourceVersions(std::string_view a,
                                                            std::string_view b) {
  if (!Comparable(a) || !Comparable(b)) return std::nullopt;
  if (a.size() != b.size()) return a.size() <=> b.size();
  return a.compare(b) <=> 0;
}

std::optional<int64_t> NumberOf(std::string_view version) {
  int64_t number = 0;
  if (!Comparable(version)) return std::nullopt;
  const auto parsed = std::from_chars(version.data(), version.data() + version.size(), number);
  if (parsed.ec != std::errc()) return std::nullopt;
  return number;
}

}  // namespace ringmaster::kube
