#pragma once

// JSON fields of the messages in agent_launcher_messages.h. Used only by messages.cc.

#include "common/control/agent_launcher_messages.h"
#include "common/control/members_wire.h"
#include "common/control/wire.h"

namespace ringmaster::control {

void Describe(auto& a, Is<AgentHello> auto& v) {
  a.Version("protocol", v.protocol, kFirstProtocol);
  a.Field("token", v.token);
  a.Field("jobUid", v.job_uid);
  a.Field("podUid", v.pod_uid);
  a.Optional("pod", v.pod);
  a.Optional("node", v.node);
  a.Field("workerIndex", v.worker_index);
  a.Field("slots", v.slots);
  a.Field("nonce", v.nonce);
  a.Field("highestEpoch", v.highest_epoch);
}

void Describe(auto& a, Is<AgentReady> auto& v) {
  a.Field("address", v.address);
  a.Field("sshPort", v.ssh_port);
  a.Optional("faults", v.faults);
  a.Optional("versions", v.versions);
}

void Describe(auto& a, Is<Heartbeat> auto& v) { a.Optional("everyMillis", v.every_millis); }

void Describe(auto& a, Is<DataCacheProgress> auto& v) {
  a.Optional("bytesDone", v.bytes_done);
  a.Optional("bytesTotal", v.bytes_total);
}

void Describe(auto& a, Is<RankReady> auto& v) {
  a.Field("slot", v.slot);
  a.Field("start", v.start);
}

void Describe(auto& a, Is<EpochAccepted> auto& v) { a.Field("epoch", v.epoch); }

void Describe(auto& a, Is<WorldReport> auto& v) {
  a.Field("epoch", v.epoch);
  a.Field("members", v.members, ByHost());
  a.Field("running", v.running);
  a.Optional("released", v.released);
}

void Describe(auto& a, Is<SlotAttached> auto& v) {
  a.Field("cohort", v.cohort);
  a.Field("slot", v.slot);
  a.Field("mpiRank", v.mpi_rank);
  a.Field("mpiWorldSize", v.mpi_world_size);
}

void Describe(auto& a, Is<SlotOutput> auto& v) {
  a.Field("slot", v.slot);
  a.Optional("rank", v.rank);
  a.Optional("isStderr", v.is_stderr);
  a.Field("data", v.data, AsBase64());
}

void Describe(auto& a, Is<RankExited> auto& v) {
  a.Field("epoch", v.epoch);
  a.Field("exit", v.exit);
}

void Describe(auto& a, Is<RankPositions> auto& v) {
  a.Field("epoch", v.epoch);
  a.Field("ranks", v.ranks);
}

void Describe(auto& a, Is<RankStack> auto& v) {
  a.Field("slot", v.slot);
  a.Field("start", v.start);
  a.Optional("reason", v.reason);
  a.Optional("text", v.text);
}

void Describe(auto& a, Is<CommandOutput> auto& v) {
  a.Field("id", v.id);
  a.Optional("isStderr", v.is_stderr);
  a.Field("data", v.data, AsBase64());
}

void Describe(auto& a, Is<CommandExited> auto& v) {
  a.Field("id", v.id);
  a.Field("exitCode", v.exit_code);
  a.Optional("signal", v.signal);
  a.Optional("fault", v.fault);
}

void Describe(auto& a, Is<AgentLeaving> auto& v) { a.Optional("reason", v.reason); }

void Describe(auto& a, Is<Welcome> auto& v) {
  a.Field("term", v.term);
  a.Optional("heartbeatMillis", v.heartbeat_millis);
  a.Optional("lostAfterMillis", v.lost_after_millis);
  a.Version("protocol", v.protocol, kFirstProtocol);
}

void Describe(auto& a, Is<Refused> auto& v) { a.Optional("reason", v.reason); }

void Describe(auto& a, Is<PrepareEpoch> auto& v) { a.Field("epoch", v.epoch); }

void Describe(auto& a, Is<SwitchEpoch> auto& v) {
  a.Field("epoch", v.epoch);
  a.Optional("leaving", v.leaving);
}

void Describe(auto& a, Is<StartEpoch> auto& v) {
  a.Field("epoch", v.epoch);
  a.Field("cohort", v.cohort);
  a.Field("members", v.members, ByHost());
  a.Optional("fullSize", v.full_size);
}

void Describe(auto& a, Is<RankRange> auto& v) {
  a.Field("first", v.first);
  a.Field("count", v.count);
}

void Describe(auto& a, Is<ChangeEpoch> auto& v) {
  a.Field("epoch", v.epoch);
  a.Field("cohort", v.cohort);
  a.Field("base", v.base);
  a.Field("left", v.left);
  a.Field("joined", v.joined, ByHost());
  a.Optional("fullSize", v.full_size);
}

void Describe(auto& a, Is<TellWorld> auto& v) { a.Field("epoch", v.epoch); }

void Describe(auto& a, Is<StopEpoch> auto& v) {
  a.Field("epoch", v.epoch);
  a.Optional("graceMillis", v.grace_millis);
}

void Describe(auto& a, Is<EndStalledRank> auto& v) {
  a.Field("slot", v.slot);
  a.Field("start", v.start);
  a.Optional("reason", v.reason);
}

void Describe(auto& a, Is<RunCommand> auto& v) {
  a.Field("id", v.id);
  a.Field("command", v.command);
}

void Describe(auto& a, Is<EndCommand> auto& v) { a.Field("id", v.id); }

void Describe(auto& /*a*/, Is<Shutdown> auto& /*v*/) {}

}  // namespace ringmaster::control
