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

// Returns the address of the first included interface; all must exist. If none is included, returns
// `routed`, the source address of packets to the launcher. If its interface is excluded, returns
// the first of `here` (in kernel order) that is neither excluded nor a loopback. Pure.
Result<std::string> ChooseAddress(const std::vector<InterfaceAddress>& here,
                                  const Result<std::string>& routed,
                                  const control::Interfaces& interfaces);

// Chooses this host's address, of the same family as `launcher_address` (an IP address). Only
// queries the kernel: sends nothing and does not block.
Result<std::string> FindAddress(const std::string& launcher_address,
                                const control::Interfaces& interfaces);

// Returns whether a program can listen on this port on all addresses.
bool PortIsFree(int port);

}  // namespace ringmaster::agent
