#pragma once

// Determines which of the driver's GPU errors (Xids) mean that the GPU is broken. Pure functions,
// used by the agent.

#include <string>

namespace ringmaster::agent {

// Returns whether a device with this Xid is unusable until it is reset or replaced, according to
// the immediate action in NVIDIA's catalogue of Xids. Restarting the program does not help after
// such an Xid. Excludes Xids that a program can cause (13, 31, 43, 45) and Xids after which the
// device still works (63, 92, 94).
bool IsFatalXid(int xid);

// Returns a text like "Xid 79 (the GPU has fallen off the bus)".
std::string XidText(int xid);

}  // namespace ringmaster::agent
