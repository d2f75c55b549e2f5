#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <unistd.h>

#include "worker/agent/preflight/check.h"

namespace ringmaster::agent {
namespace {

bool IsLegalLabel(std::string_view label) {
  const auto legal = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-'; };
  return !label.empty() && label.size() <= 63 && label.front() != '-' && label.back() != '-' &&
         std::all_of(label.begin(), label.end(), legal);
}

}  // namespace

bool IsLegalHostName(const std::string& name) {
  if (name.size() > 64) return false;
  std::string_view rest = name;
  while (true) {
    const std::size_t dot = rest.find('.');
    if (!IsLegalLabel(rest.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    rest.remove_prefix(dot + 1);
  }
}

// Open MPI's daemons exchange host names and stumble over illegal ones with errors that do not name
// them.
std::optional<Finding> CheckHostName(const Config& /*config*/) {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  if (IsLegalHostName(name.data())) return std::nullopt;
  return Finding{"hostname", "the host name \"" + std::string(name.data()) +
                                 "\" is not legal (letters, digits and hyphens in labels between "
                                 "dots); set one by the Pod template's hostname"};
}

}  // namespace ringmaster::agent
