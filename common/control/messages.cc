#include "common/control/messages.h"

#include <array>
#include <type_traits>
#include <utility>

#include "common/base/base64.h"
#include "common/control/members_wire.h"
#include "common/control/wire.h"
#include "common/json/fields.h"

namespace ringmaster::control {
namespace {

// Bytes that are not text.
struct AsBase64 {
  Json Write(const std::string& bytes) const { return EncodeBase64(bytes); }
  std::string Read(const Json& json, std::string& bytes) const {
    if (!json.is_string()) return "expected text";
    auto decoded = DecodeBase64(json.get_ref<const std::string&>());
    if (!decoded) return "is no base64";
    bytes = std::move(*decoded);
    return {};
  }
};

struct AsBase64List {
  Json Write(const std::vector<std::string>& values) const {
    Json list = Json::array();
    for (const std::string& value : values) list.push_back(AsBase64().Write(value));
    return list;
  }
  std::string Read(const Json& json, std::vector<std::string>& values) const {
    if (!json.is_array()) return "expected a list";
    std::string wrong;
    for (const Json& item : json) {
      if (wrong.empty()) wrong = AsBase64().Read(item, values.emplace_back());
    }
    return wrong;
  }
};

}  // namespace

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

void Describe(auto& a, Is<SlotAttached> auto& v) {
  a.Field("cohort", v.cohort);
  a.Field("slot", v.slot);
  a.Field("mpiRank", v.mpi_rank);
  a.Field("mpiWorldSize", v.mpi_world_size);
}

void Describe(auto& a, Is<RankExited> auto& v) {
  a.Field("epoch", v.epoch);
  a.Field("exit", v.exit);
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

void Describe(auto& a, Is<AgentLeaving> auto& v) { a.Optional("reason", v.reason); }

void Describe(auto& a, Is<Welcome> auto& v) {
  a.Field("term", v.term);
  a.Optional("heartbeatMillis", v.heartbeat_millis);
  a.Version("protocol", v.protocol, kFirstProtocol);
}

void Describe(auto& a, Is<Refused> auto& v) { a.Optional("reason", v.reason); }

void Describe(auto& a, Is<RankRange> auto& v) {
  a.Field("first", v.first);
  a.Field("count", v.count);
}

void Describe(auto& a, Is<StartEpoch> auto& v) {
  a.Field("epoch", v.epoch);
  a.Field("cohort", v.cohort);
  a.Field("members", v.members, ByHost());
}

void Describe(auto& a, Is<StopEpoch> auto& v) {
  a.Field("epoch", v.epoch);
  a.Optional("graceMillis", v.grace_millis);
}

void Describe(auto& a, Is<Release> auto& v) { a.Field("epoch", v.epoch); }

void Describe(auto& /*a*/, Is<Shutdown> auto& /*v*/) {}

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

void Describe(auto& a, Is<RankOutput> auto& v) {
  a.Optional("isStderr", v.is_stderr);
  a.Field("data", v.data, AsBase64());
}

void Describe(auto& a, Is<AttachExit> auto& v) { a.Field("exit", v.exit); }

void Describe(auto& a, Is<RankHello> auto& v) {
  a.Field("slot", v.slot);
  a.Optional("pid", v.pid);
  a.Version("protocol", v.protocol, kFirstProtocol);
}

void Describe(auto& a, Is<RankEpoch> auto& v) {
  a.Field("epoch", v.epoch);
  a.Field("rank", v.rank);
  a.Field("members", v.members, ByHost());
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

void Describe(auto& a, Is<SlotOutput> auto& v) {
  a.Field("slot", v.slot);
  a.Optional("rank", v.rank);
  a.Optional("isStderr", v.is_stderr);
  a.Field("data", v.data, AsBase64());
}

void Describe(auto& a, Is<PrepareEpoch> auto& v) { a.Field("epoch", v.epoch); }

void Describe(auto& a, Is<SwitchEpoch> auto& v) {
  a.Field("epoch", v.epoch);
  a.Optional("leaving", v.leaving);
}

void Describe(auto& a, Is<RankLeave> auto& v) { a.Field("below", v.below); }

void Describe(auto& a, Is<RankSwitch> auto& v) {
  a.Field("epoch", v.epoch);
  a.Optional("leaving", v.leaving);
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

void Describe(auto& a, Is<EndStalledRank> auto& v) {
  a.Field("slot", v.slot);
  a.Field("start", v.start);
  a.Optional("reason", v.reason);
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

void Describe(auto& a, Is<DataCacheProgress> auto& v) {
  a.Optional("bytesDone", v.bytes_done);
  a.Optional("bytesTotal", v.bytes_total);
}

void Describe(auto& a, Is<ChangeEpoch> auto& v) {
  a.Field("epoch", v.epoch);
  a.Field("cohort", v.cohort);
  a.Field("base", v.base);
  a.Field("left", v.left);
  a.Field("joined", v.joined, ByHost());
}

void Describe(auto& a, Is<TellWorld> auto& v) { a.Field("epoch", v.epoch); }

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
Result<Message> DecodeAs(std::size_t index, const Json& json,
                         std::index_sequence<kIndex...> /*indices*/) {
  std::optional<Result<Message>> decoded;
  const auto try_one = [&]<std::size_t kI>(std::integral_constant<std::size_t, kI>) {
    if (index != kI) return;
    auto value = FromJson<std::variant_alternative_t<kI, Message>>(json);
    decoded = value.ok() ? Result<Message>(Message(std::move(*value)))
                         : Result<Message>(value.error().WithContext(
                               "reading a " + std::string(kTypeNames[kI]) + " message"));
  };
  (try_one(std::integral_constant<std::size_t, kIndex>{}), ...);
  return std::move(*decoded);
}

}  // namespace

std::string Encode(const Message& message) {
  Json json = std::visit([](const auto& m) { return ToJson(m); }, message);
  json["type"] = TypeName(message);
  return DumpJson(json);
}

Result<Message> Decode(std::string_view line) {
  Result<Json> json = ParseJsonObject(line);
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
