#pragma once

// JSON fields of the messages in rank_agent_messages.h. Used only by messages.cc.

#include "common/control/members_wire.h"
#include "common/control/rank_agent_messages.h"
#include "common/control/wire.h"

namespace ringmaster::control {

void Describe(auto& a, Is<RankHello> auto& v) {
  a.Field("slot", v.slot);
  a.Optional("pid", v.pid);
  a.Version("protocol", v.protocol, kFirstProtocol);
}

void Describe(auto& a, Is<RankEpoch> auto& v) {
  a.Field("epoch", v.epoch);
  a.Field("rank", v.rank);
  a.Field("members", v.members, ByHost());
  a.Optional("fullSize", v.full_size);
}

void Describe(auto& a, Is<RankLeave> auto& v) { a.Field("below", v.below); }

void Describe(auto& a, Is<RankSwitch> auto& v) {
  a.Field("epoch", v.epoch);
  a.Optional("leaving", v.leaving);
}

void Describe(auto& a, Is<RankBroken> auto& v) {
  a.Field("epoch", v.epoch);
  a.Field("rank", v.rank);
  a.Optional("peer", v.peer);
  a.Optional("reason", v.reason);
}

void Describe(auto& a, Is<RankAtBoundary> auto& v) {
  a.Field("epoch", v.epoch);
  a.Field("rank", v.rank);
  a.Field("step", v.step);
}

void Describe(auto& a, Is<RankProgress> auto& v) {
  a.Field("epoch", v.epoch);
  a.Field("progress", v.progress);
}

void Describe(auto& a, Is<RankDone> auto& v) {
  a.Field("epoch", v.epoch);
  a.Field("rank", v.rank);
  a.Optional("trained", v.trained);
}

void Describe(auto& a, Is<CheckpointWritten> auto& v) {
  a.Field("epoch", v.epoch);
  a.Field("rank", v.rank);
  a.Field("step", v.step);
  a.Field("shard", v.shard);
  a.Field("bytes", v.bytes);
  a.Field("checksum", v.checksum);
}

void Describe(auto& a, Is<CheckpointDone> auto& v) {
  a.Field("epoch", v.epoch);
  a.Field("rank", v.rank);
  a.Field("step", v.step);
  a.Optional("bytes", v.bytes);
}

void Describe(auto& a, Is<KeptCheckpoint> auto& v) {
  a.Field("step", v.step);
  a.Optional("bytes", v.bytes);
  a.Optional("ageMillis", v.age_millis);
}

void Describe(auto& a, Is<RankBegan> auto& v) {
  a.Field("epoch", v.epoch);
  a.Field("rank", v.rank);
  a.Field("beginning", v.beginning);
  a.Optional("kept", v.kept);
}

void Describe(auto& a, Is<RankProtection> auto& v) {
  a.Field("slot", v.slot);
  a.Field("what", v.what);
  a.Field("fault", v.fault);
}

void Describe(auto& a, Is<CheckpointGrant> auto& v) {
  a.Field("epoch", v.epoch);
  a.Field("rank", v.rank);
  a.Field("step", v.step);
  a.Field("shard", v.shard);
}

void Describe(auto& a, Is<TakeCheckpoint> auto& v) { a.Field("epoch", v.epoch); }

void Describe(auto& a, Is<Release> auto& v) { a.Field("epoch", v.epoch); }

void Describe(auto& a, Is<StoreSet> auto& v) {
  a.Field("epoch", v.epoch);
  a.Field("key", v.key);
  a.Field("value", v.value, AsBase64());
}

void Describe(auto& a, Is<StoreGet> auto& v) {
  a.Field("epoch", v.epoch);
  a.Field("id", v.id);
  a.Field("rank", v.rank);
  a.Field("keys", v.keys);
}

void Describe(auto& a, Is<StoreValues> auto& v) {
  a.Field("epoch", v.epoch);
  a.Field("id", v.id);
  a.Field("rank", v.rank);
  a.Field("values", v.values, AsBase64List());
}

}  // namespace ringmaster::control
