#include <gloo/config.h>

#include "worker/trainer/comm/gloo/gloo_communicator.h"
#include "worker/trainer/comm/host/transport_choice.h"

namespace ringmaster::trainer {

std::string GlooVersion() {
  return std::to_string(GLOO_VERSION_MAJOR) + "." + std::to_string(GLOO_VERSION_MINOR) + "." +
         std::to_string(GLOO_VERSION_PATCH);
}

std::shared_ptr<CollectiveTransport> MakeHostGloo() { return MakeGlooTransport(); }

}  // namespace ringmaster::trainer
