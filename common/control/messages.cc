#include "common/control/messages.h"

#include <array>
#include <optional>
#include <type_traits>
#include <utility>

#include "common/control/agent_launcher_wire.h"
#include "common/control/attach_agent_wire.h"
#include "common/control/rank_agent_wire.h"
#include "common/control/rsh_launcher_wire.h"
#include "common/json/fields.h"

namespace ringmaster::control {
namespace {

// Names of the message types, by the variant's index.
constexpr std::array<std::string_view, std::variant_size_v<Message>> kTypeNames = {
    "AgentHello",        "AgentReady",        "Heartbeat",      "SlotAttached",   "RankExited",
    "RankProgress",      "RankDone",          "AgentLeaving",   "Welcome",        "Refused",
    "StartEpoch",        "StopEpoch",         "Release",        "Shutdown",       "StoreSet",
    "StoreGet",          "StoreValues",       "AttachHello",    "AttachGo",       "RankOutput",
    "AttachExit",        "RankHello",         "RankEpoch",      "RankReady",      "EpochAccepted",
    "WorldReport",       "RankBroken",        "RankAtBoundary", "SlotOutput",     "PrepareEpoch",
    "SwitchEpoch",       "RankLeave",         "RankSwitch",     "RankPositions",  "RankStack",
    "EndStalledRank",    "CheckpointWritten", "CheckpointDone", "RankProtection", "CheckpointGrant",
    "DataCacheProgress", "TakeCheckpoint",    "RankBegan",      "TellWorld",      "ChangeEpoch",
    "RunCommand",        "EndCommand",        "CommandOutput",  "CommandExited",  "RshHello",
    "AttachStarted"};
static_assert(std::is_same_v<std::variant_alternative_t<50, Message>, AttachStarted>);
static_assert(std::is_same_v<std::variant_alternative_t<49, Message>, RshHello>);
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
