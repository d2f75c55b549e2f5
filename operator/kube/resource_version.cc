#include "operator/kube/resource_version.h"

#include <algorithm>

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

}  // namespace ringmaster::kube
