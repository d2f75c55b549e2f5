#pragma once

// JSON fields of the messages in rsh_launcher_messages.h. Used only by messages.cc.

#include "common/control/rsh_launcher_messages.h"
#include "common/control/wire.h"

namespace ringmaster::control {

void Describe(auto& a, Is<RshHello> auto& v) {
  a.Field("host", v.host);
  a.Field("command", v.command);
  a.Version("protocol", v.protocol, kFirstProtocol);
}

}  // namespace ringmaster::control
