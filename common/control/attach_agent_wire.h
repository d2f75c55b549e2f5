#pragma once

// JSON fields of the messages in attach_agent_messages.h. Used only by messages.cc.

#include "common/control/attach_agent_messages.h"
#include "common/control/wire.h"

namespace ringmaster::control {

void Describe(auto& a, Is<AttachHello> auto& v) {
  a.Field("cohort", v.cohort);
  a.Field("slot", v.slot);
  a.Field("mpiRank", v.mpi_rank);
  a.Field("mpiWorldSize", v.mpi_world_size);
  a.Optional("direct", v.direct);
  a.Version("protocol", v.protocol, kFirstProtocol);
}

void Describe(auto& a, Is<AttachGo> auto& v) {
  a.Field("epoch", v.epoch);
  a.Field("rank", v.rank);
}

void Describe(auto& a, Is<AttachStarted> auto& v) { a.Field("group", v.group); }

void Describe(auto& a, Is<RankOutput> auto& v) {
  a.Optional("isStderr", v.is_stderr);
  a.Field("data", v.data, AsBase64());
}

void Describe(auto& a, Is<AttachExit> auto& v) { a.Field("exit", v.exit); }

}  // namespace ringmaster::control
