#pragma once

// Finds the address and ports at which the launcher and other workers reach this worker. Used by
// the agent.

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/control/interfaces.h"

namespace ringmaster::agent {

// What an interface that is up has; an interface with several addresses comes several times.
struct InterfaceAddress {
  std::string interface;
  std::string address;
  bool loopback = false;
};

// Of `here`, in the kernel's order: the address of the first interface that is included, if all of
// those are there; else `routed`, the one by which packets to the launcher leave, unless its
// interface is excluded; else the first that is not and is not a loopback. Pure.
Result<std::string> ChooseAddress(const std::vector<InterfaceAddress>& here,
                                  const Result<std::string>& routed,
                                  const control::Interfaces& interfaces);

// The same of this host, of the kind of `launcher_address` (an IP address). Asks the kernel alone:
// sends nothing, does not block.
Result<std::string> FindAddress(const std::string& launcher_address,
                                const control::Interfaces& interfaces);

// Whether a program may listen there, on all addresses.
bool PortIsFree(int port);

}  // namespace ringmaster::agent
