#pragma once

// Passes the network interfaces in spec.network on to other programs. An interface name in the spec
// is always a full name. Open MPI and Gloo treat names the same way; NCCL treats them as prefixes
// unless configured otherwise.

#include <string>
#include <string_view>
#include <vector>

namespace ringmaster::control {

// At most one of the lists has names; if both are empty, the routes decide.
struct Interfaces {
  std::vector<std::string> include;  // every worker has all of them, and is reached by the first
  std::vector<std::string> exclude;  // all others may be used

  friend bool operator==(const Interfaces&, const Interfaces&) = default;
};

// Whether a name can be handed to NCCL, Open MPI and Gloo as the name of an interface and as
// nothing else: a letter, then letters, digits, "_", "." and "-"; at most 15, as for the kernel.
bool IsInterfaceName(std::string_view name);

// With commas between.
std::string InterfaceList(const std::vector<std::string>& names);

// The excluded interfaces and the loopback: NCCL and Open MPI exclude it by default, but not if
// they are given a list.
std::vector<std::string> ExcludedWithLoopback(const Interfaces& interfaces);

// The value of NCCL_SOCKET_IFNAME; empty: none.
std::string NcclInterfaces(const Interfaces& interfaces);

}  // namespace ringmaster::control
