#include "common/control/messages.h"

#include <array>
#include <type_traits>
#include <utility>

#include "common/control/wire.h"

namespace ringmaster::control {
namespace wire {

template <typename A>
void Describe(A& a, typename A::template Ref<AgentHello> v) {
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

template <typename A>
void Describe(A& a, typename A::template Ref<AgentReady> v) {
  a.Field("address", v.address);
  a.Field("sshPort", v.ssh_port);
  a.Optional("faults", v.faults);
  a.Optional("versions", v.versions);
}

template <typename A>
void Describe(A& a, typename A::template Ref<Heartbeat> v) {
  a.Optional("everyMillis", v.every_millis);
}

template <typename A>
void Describe(A& a, typename A::template Ref<SlotAttached> v) {
  a.Field("cohort", v.cohort);
  a.Field("slot", v.slot);
  a.Field("mpiRank", v.mpi_rank);
  a.Field("mpiWorldSize", v.mpi_world_size);
}

template <typename A>
void Describe(A& a, typename A::template Ref<RankExited> v) {
  a.Field("epoch", v.epoch);
  a.Field("exit", v.exit);
}

template <typename A>
void Describe(A& a, typename A::template Ref<RankProgress> v) {
  a.Field("epoch", v.epoch);
  a.Field("progress", v.progress);
}

template <typename A>
void Describe(A& a, typename A::template Ref<RankDone> v) {
  a.Field("epoch", v.epoch);
  a.Field("rank", v.rank);
  a.Optional("trained", v.trained);
}

template <typename A>
void Describe(A& a, typename A::template Ref<AgentLeaving> v) {
  a.Optional("reason", v.reason);
}

template <typename A>
void Describe(A& a, typename A::template Ref<Welcome> v) {
  a.Field("term", v.term);
  a.Optional("heartbeatMillis", v.heartbeat_millis);
  a.Version("protocol", v.protocol, kFirstProtocol);
}

template <typename A>
void Describe(A& a, typename A::template Ref<Refused> v) {
  a.Optional("reason", v.reason);
}

template <typename A>
void Describe(A& a, typename A::template Ref<RankRange> v) {
  a.Field("first", v.first);
  a.Field("count", v.count);
}

template <typename A>
void Describe(A& a, typename A::template Ref<StartEpoch> v) {
  a.Field("epoch", v.epoch);
  a.Field("cohort", v.cohort);
  a.Members("members", v.members);
}

template <typename A>
void Describe(A& a, typename A::template Ref<StopEpoch> v) {
  a.Field("epoch", v.epoch);
  a.Optional("graceMillis", v.grace_millis);
}

template <typename A>
void Describe(A& a, typename A::template Ref<Release> v) {
  a.Field("epoch", v.epoch);
}

template <typename A>
void Describe(A& /*a*/, typename A::template Ref<Shutdown> /*v*/) {}

template <typename A>
void Describe(A& a, typename A::template Ref<StoreSet> v) {
  a.Field("epoch", v.epoch);
  a.Field("key", v.key);
  a.Bytes("value", v.value);
}

template <typename A>
void Describe(A& a, typename A::template Ref<StoreGet> v) {
  a.Field("epoch", v.epoch);
  a.Field("id", v.id);
  a.Field("rank", v.rank);
  a.Field("keys", v.keys);
}

template <typename A>
void Describe(A& a, typename A::template Ref<StoreValues> v) {
  a.Field("epoch", v.epoch);
  a.Field("id", v.id);
  a.Field("rank", v.rank);
  a.BytesList("values", v.values);
}

template <typename A>
void Describe(A& a, typename A::template Ref<AttachHello> v) {
  a.Field("cohort", v.cohort);
  a.Field("slot", v.slot);
  a.Field("mpiRank", v.mpi_rank);
  a.Field("mpiWorldSize", v.mpi_world_size);
  a.Optional("direct", v.direct);
  a.Version("protocol", v.protocol, kFirstProtocol);
}

template <typename A>
void Describe(A& a, typename A::template Ref<AttachGo> v) {
  a.Field("epoch", v.epoch);
  a.Field("rank", v.rank);
}

template <typename A>
void Describe(A& a, typename A::template Ref<RankOutput> v) {
  a.Optional("isStderr", v.is_stderr);
  a.Bytes("data", v.data);
}

template <typename A>
void Describe(A& a, typename A::template Ref<AttachExit> v) {
  a.Field("exit", v.exit);
}

template <typename A>
void Describe(A& a, typename A::template Ref<RankHello> v) {
  a.Field("slot", v.slot);
  a.Optional("pid", v.pid);
  a.Version("protocol", v.protocol, kFirstProtocol);
}

template <typename A>
void Describe(A& a, typename A::template Ref<RankEpoch> v) {
  a.Field("epoch", v.epoch);
  a.Field("rank", v.rank);
  a.Members("members", v.members);
}

template <typename A>
void Describe(A& a, typename A::template Ref<RankReady> v) {
  a.Field("slot", v.slot);
  a.Field("start", v.start);
}

template <typename A>
void Describe(A& a, typename A::template Ref<EpochAccepted> v) {
  a.Field("epoch", v.epoch);
}

template <typename A>
void Describe(A& a, typename A::template Ref<WorldReport> v) {
  a.Field("epoch", v.epoch);
  a.Members("members", v.members);
  a.Field("running", v.running);
}

template <typename A>
void Describe(A& a, typename A::template Ref<RankBroken> v) {
  a.Field("epoch", v.epoch);
  a.Field("rank", v.rank);
  a.Optional("peer", v.peer);
  a.Optional("reason", v.reason);
}

template <typename A>
void Describe(A& a, typename A::template Ref<RankAtBoundary> v) {
  a.Field("epoch", v.epoch);
  a.Field("rank", v.rank);
  a.Field("step", v.step);
}

template <typename A>
void Describe(A& a, typename A::template Ref<SlotOutput> v) {
  a.Field("slot", v.slot);
  a.Optional("rank", v.rank);
  a.Optional("isStderr", v.is_stderr);
  a.Bytes("data", v.data);
}

template <typename A>
void Describe(A& a, typename A::template Ref<PrepareEpoch> v) {
  a.Field("epoch", v.epoch);
}

template <typename A>
void Describe(A& a, typename A::template Ref<SwitchEpoch> v) {
  a.Field("epoch", v.epoch);
  a.Optional("leaving", v.leaving);
}

template <typename A>
void Describe(A& a, typename A::template Ref<RankLeave> v) {
  a.Field("below", v.below);
}

template <typename A>
void Describe(A& a, typename A::template Ref<RankSwitch> v) {
  a.Field("epoch", v.epoch);
  a.Optional("leaving", v.leaving);
}

template <typename A>
void Describe(A& a, typename A::template Ref<RankPositions> v) {
  a.Field("epoch", v.epoch);
  a.Field("ranks", v.ranks);
}

template <typename A>
void Describe(A& a, typename A::template Ref<RankStack> v) {
  a.Field("slot", v.slot);
  a.Field("start", v.start);
  a.Optional("reason", v.reason);
  a.Optional("text", v.text);
}

template <typename A>
void Describe(A& a, typename A::template Ref<EndStalledRank> v) {
  a.Field("slot", v.slot);
  a.Field("start", v.start);
  a.Optional("reason", v.reason);
}

template <typename A>
void Describe(A& a, typename A::template Ref<CheckpointWritten> v) {
  a.Field("epoch", v.epoch);
  a.Field("rank", v.rank);
  a.Field("step", v.step);
  a.Field("shard", v.shard);
  a.Field("bytes", v.bytes);
  a.Field("checksum", v.checksum);
}

template <typename A>
void Describe(A& a, typename A::template Ref<CheckpointDone> v) {
  a.Field("epoch", v.epoch);
  a.Field("rank", v.rank);
  a.Field("step", v.step);
  a.Optional("bytes", v.bytes);
}

template <typename A>
void Describe(A& a, typename A::template Ref<KeptCheckpoint> v) {
  a.Field("step", v.step);
  a.Optional("bytes", v.bytes);
  a.Optional("ageMillis", v.age_millis);
}

template <typename A>
void Describe(A& a, typename A::template Ref<RankBegan> v) {
  a.Field("epoch", v.epoch);
  a.Field("rank", v.rank);
  a.Field("beginning", v.beginning);
  a.Optional("kept", v.kept);
}

template <typename A>
void Describe(A& a, typename A::template Ref<RankProtection> v) {
  a.Field("slot", v.slot);
  a.Field("what", v.what);
  a.Field("fault", v.fault);
}

template <typename A>
void Describe(A& a, typename A::template Ref<CheckpointGrant> v) {
  a.Field("epoch", v.epoch);
  a.Field("rank", v.rank);
  a.Field("step", v.step);
  a.Field("shard", v.shard);
}

template <typename A>
void Describe(A& a, typename A::template Ref<TakeCheckpoint> v) {
  a.Field("epoch", v.epoch);
}

template <typename A>
void Describe(A& a, typename A::template Ref<DataCacheProgress> v) {
  a.Optional("bytesDone", v.bytes_done);
  a.Optional("bytesTotal", v.bytes_total);
}

template <typename A>
void Describe(A& a, typename A::template Ref<ChangeEpoch> v) {
  a.Field("epoch", v.epoch);
  a.Field("cohort", v.cohort);
  a.Field("base", v.base);
  a.Field("left", v.left);
  a.Members("joined", v.joined);
}

template <typename A>
void Describe(A& a, typename A::template Ref<TellWorld> v) {
  a.Field("epoch", v.epoch);
}

}  // namespace wire

namespace {

// By the variant's index.
constexpr std::array<std::string_view, std::variant_size_v<Message>> kTypeNames = {
    "AgentHello",        "AgentReady",        "Heartbeat",      "SlotAttached",   "RankExited",
    "RankProgress",      "RankDone",          "AgentLeaving",   "Welcome",        "Refused",
    "StartEpoch",        "StopEpoch",         "Release",        "Shutdown",       "StoreSet",
    "StoreGet",          "StoreValues",       "AttachHello",    "AttachGo",       "RankOutput",
    "AttachExit",        "RankHello",         "RankEpoch",      "RankReady",      "EpochAccepted",
    "WorldReport",       "RankBroken",        "RankAtBoundary", "SlotOutput",     "PrepareEpoch",
    "SwitchEpoch",       "RankLeave",         "RankSwitch",     "RankPositions",  "RankStack",
    "EndStalledRank",    "CheckpointWritten", "CheckpointDone", "RankProtection", "CheckpointGrant",
    "DataCacheProgress", "TakeCheckpoint",    "RankBegan",      "TellWorld",      "ChangeEpoch"};
static_assert(std::is_same_v<std::variant_alternative_t<44, Message>, ChangeEpoch>);
static_assert(std::is_same_v<std::variant_alternative_t<43, Message>, TellWorld>);
static_assert(std::is_same_v<std::variant_alternative_t<42, Message>, RankBegan>);
static_assert(std::is_same_v<std::variant_alternative_t<41, Message>, TakeCheckpoint>);
static_assert(std::is_same_v<std::variant_alternative_t<40, Message>, DataCacheProgress>);
static_assert(std::is_same_v<std::variant_alternative_t<39, Message>, CheckpointGrant>);
static_assert(std::is_same_v<std::variant_alternative_t<35, Message>, EndStalledRank>);
static_assert(std::is_same_v<std::variant_alternative_t<32, Message>, RankSwitch>);
static_assert(std::is_same_v<std::variant_alternative_t<22, Message>, RankEpoch>);
static_assert(std::is_same_v<std::variant_alternative_t<13, Message>, Shutdown>);

template <std::size_t... kIndex>
Result<Message> DecodeAs(std::size_t index, const wire::Json& json,
                         std::index_sequence<kIndex...> /*indices*/) {
  std::optional<Result<Message>> decoded;
  const auto try_one = [&]<std::size_t kI>(std::integral_constant<std::size_t, kI>) {
    if (index != kI) return;
    auto value = wire::DecodeObject<std::variant_alternative_t<kI, Message>>(json);
    decoded = value.ok() ? Result<Message>(Message(std::move(*value)))
                         : Result<Message>(value.error().WithContext(
                               "reading a " + std::string(kTypeNames[kI]) + " message"));
  };
  (try_one(std::integral_constant<std::size_t, kIndex>{}), ...);
  return std::move(*decoded);
}

}  // namespace

std::string Encode(const Message& message) {
  wire::Json json = std::visit([](const auto& m) { return wire::Writer::ToJson(m); }, message);
  json["type"] = TypeName(message);
  return wire::Dump(json);
}

Result<Message> Decode(std::string_view line) {
  Result<wire::Json> json = wire::ParseObject(line);
  if (!json.ok()) return json.error().WithContext("reading a message");
  const auto type = json->find("type");
  if (type == json->end() || !type->is_string()) {
    return Error{ErrorKind::kInvalid, "while reading a message: field 'type': expected text"};
  }
  const auto& name = type->get_ref<const std::string&>();
  for (std::size_t i = 0; i < kTypeNames.size(); ++i) {
    if (kTypeNames[i] == name) {
      return DecodeAs(i, *json, std::make_index_sequence<std::variant_size_v<Message>>{});
    }
  }
  return Error{.kind = ErrorKind::kInvalid,
               .message = "while reading a message: unknown type '" + name.substr(0, 40) + "'",
               .reason = kReasonUnknownType};
}

std::string_view TypeName(const Message& message) { return kTypeNames[message.index()]; }

}  // namespace ringmaster::control
