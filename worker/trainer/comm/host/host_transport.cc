#include "worker/trainer/comm/host/host_transport.h"

namespace ringmaster::trainer {

const char* NameOf(HostTransport transport) {
  switch (transport) {
    case HostTransport::kAuto:
      return "auto";
    case HostTransport::kGloo:
      return "gloo";
    case HostTransport::kSharedMemory:
      return "shared-memory";
  }
  return "";
}

std::optional<HostTransport> HostTransportOf(const std::string& name) {
  for (const HostTransport transport : kHostTransports) {
    if (name == NameOf(transport)) return transport;
  }
  return {};
}

}  // namespace ringmaster::trainer
