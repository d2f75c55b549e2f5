#pragma once

// Finds the address and ports at which the launcher and other workers reach this worker. Used by
// the agent.

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/control/interfaces.h"

namespace ringmaster::agent {

// An address of an interface that is up; an interface may have several.
struct InterfaceAddress {
  std::string interface;
  std::string address;
  bool loopback = false;
};

// If interfaces are included, all must exist, and the address is that of the first one. Otherwise
// it is `routed`, the source address of packets to the launcher, or, if that interface is excluded,
// the first of `here` (in the kernel's order) that is neither excluded nor a loopback. Pure.
Result<std::string> ChooseAddress(const std::vector<InterfaceAddress>& here,
                                  const Result<std::string>& routed,
                                  const control::Interfaces& interfaces);

// Chooses this host's address, of the same family as `launcher_address` (an IP address). Only
// queries the kernel: sends nothing and does not block.
Result<std::string> FindAddress(const std::string& launcher_address,
                                const control::Interfaces& interfaces);

// Whether a program can listen on this port on all addresses.
bool PortIsFree(int port);

}  // namespace ringmaster::agent
