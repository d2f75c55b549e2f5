#pragma once

// The protocol versions that a peer supports, as sent in its first line and passed to ranks in
// RINGMASTER_PROTOCOL. See README.md, "Versions".

namespace ringmaster::control {

// Raised with each addition that the other side has to know of.
inline constexpr int kProtocolVersion = 4;
// Below it a peer is refused; a peer that says none speaks this one.
inline constexpr int kFirstProtocol = 3;
// From this one on an agent runs commands of mpirun (RunCommand).
inline constexpr int kProtocolOfCommands = 4;

}  // namespace ringmaster::control
