#pragma once

// The protocol versions that a peer supports, as sent in its first line and passed to ranks in
// RINGMASTER_PROTOCOL. See README.md, "Versions".

namespace ringmaster::control {

// Increased with each addition that the other side must know about.
inline constexpr int kProtocolVersion = 4;
// A peer with a lower version is refused. A peer that sends no version speaks this version.
inline constexpr int kFirstProtocol = 3;
// The first version whose agents run commands of mpirun (RunCommand).
inline constexpr int kProtocolOfCommands = 4;

}  // namespace ringmaster::control
