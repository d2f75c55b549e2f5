#pragma once

// Tells which of the driver's GPU messages (Xids) mean that the GPU is broken. Pure functions, used
// by the agent.

#include <string>

namespace ringmaster::agent {

// Whether a device with this Xid is of no use before it is reset or replaced, so that no other
// start of the program helps: by the immediate action that NVIDIA's catalogue of Xids names. What
// a program can cause itself (13, 31, 43, 45), and what leaves the device in order (63, 92, 94), is
// none.
bool IsFatalXid(int xid);

// "Xid 79 (the GPU has fallen off the bus)".
std::string XidText(int xid);

}  // namespace ringmaster::agent
