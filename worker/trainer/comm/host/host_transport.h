#pragma once

// The transports of collectives on CPUs (transport_choice.h), as named by the flag --transport.

#include <array>
#include <optional>
#include <string>

namespace ringmaster::trainer {

enum class HostTransport {
  kAuto,          // shared memory if all ranks can share it; otherwise Gloo
  kGloo,          // always Gloo
  kSharedMemory,  // only shared memory; if the ranks cannot share it, the job fails
};
inline constexpr std::array kHostTransports{HostTransport::kAuto, HostTransport::kGloo,
                                            HostTransport::kSharedMemory};

// Returns the transport's name: auto, gloo or shared-memory.
const char* NameOf(HostTransport transport);
// Returns the transport with this name; nothing if no transport has it.
std::optional<HostTransport> HostTransportOf(const std::string& name);

}  // namespace ringmaster::trainer
