#pragma once

// The transports of collectives on CPUs (transport_choice.h), as named by the flag --transport.

#include <array>
#include <optional>
#include <string>

namespace ringmaster::trainer {

enum class HostTransport {
  kAuto,          // memory, where every rank of a world can share it; else Gloo
  kGloo,          // Gloo, always
  kSharedMemory,  // memory, or the job ends
};
inline constexpr std::array kHostTransports{HostTransport::kAuto, HostTransport::kGloo,
                                            HostTransport::kSharedMemory};

// auto, gloo, shared-memory.
const char* NameOf(HostTransport transport);
// Nothing: no such one.
std::optional<HostTransport> HostTransportOf(const std::string& name);

}  // namespace ringmaster::trainer
