#pragma once

// The fields of rsh_launcher_messages.h in JSON, for messages.cc alone, like wire.h.

#include "common/control/rsh_launcher_messages.h"
#include "common/control/wire.h"

namespace ringmaster::control {

void Describe(auto& a, Is<RshHello> auto& v) {
  a.Field("host", v.host);
  a.Field("command", v.command);
  a.Version("protocol", v.protocol, kFirstProtocol);
}

}  // namespace ringmaster::control
