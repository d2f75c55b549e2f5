#pragma once

// Passes the network interfaces in spec.network on to other programs. An interface name in the spec
// is always a full name. Open MPI and Gloo treat names the same way; NCCL treats them as prefixes
// unless configured otherwise.

#include <string>
#include <string_view>
#include <vector>

namespace ringmaster::control {

// At most one of the lists has names. If both are empty, the routing table selects the interface.
struct Interfaces {
  std::vector<std::string> include;  // interfaces that each worker has; the first has its address
  std::vector<std::string> exclude;  // interfaces that are not used; all others may be used

  friend bool operator==(const Interfaces&, const Interfaces&) = default;
};

// Whether NCCL, Open MPI and Gloo all read this text as one interface name: a letter, then letters,
// digits, "_", "." and "-"; at most 15 characters, the kernel's limit.
bool IsInterfaceName(std::string_view name);

// Joins names with commas.
std::string InterfaceList(const std::vector<std::string>& names);

// The excluded interfaces and the loopback interface. NCCL and Open MPI exclude loopback by
// default, but not if they are given a list.
std::vector<std::string> ExcludedWithLoopback(const Interfaces& interfaces);

// The value of NCCL_SOCKET_IFNAME; empty: do not set it.
std::string NcclInterfaces(const Interfaces& interfaces);

}  // namespace ringmaster::control
