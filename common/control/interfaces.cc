#include "common/control/interfaces.h"

#include <algorithm>

namespace ringmaster::control {
namespace {

constexpr std::size_t kLongestName = 15;
constexpr char kLoopback[] = "lo";

// Unlike std::isalpha, does not depend on the locale.
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool IsLegal(char c) {
  return IsLetter(c) || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

}  // namespace

bool IsInterfaceName(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && IsLetter(name.front()) &&
         std::all_of(name.begin(), name.end(), IsLegal);
}

std::string InterfaceList(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ",") + name;
  return list;
}

std::vector<std::string> ExcludedWithLoopback(const Interfaces& interfaces) {
  std::vector<std::string> names = interfaces.exclude;
  if (std::find(names.begin(), names.end(), kLoopback) == names.end()) {
    names.emplace_back(kLoopback);
  }
  return names;
}

std::string NcclInterfaces(const Interfaces& interfaces) {
  if (!interfaces.include.empty()) return "=" + InterfaceList(interfaces.include);
  if (interfaces.exclude.empty()) return "";
  return "^=" + InterfaceList(ExcludedWithLoopback(interfaces));
}

}  // namespace ringmaster::control
