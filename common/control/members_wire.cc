#include "common/control/members_wire.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace ringmaster::control::wire {
namespace {

using nlohmann::json;

struct HostOfRanks {
  const Member* first = nullptr;
  std::vector<const Member*> members;  // by rank
};

std::size_t SharedBegin(const HostOfRanks& host) {
  std::string_view shared = host.first->start;
  for (const Member* member : host.members) {
    const std::string_view start = member->start;
    const auto differs = std::mismatch(shared.begin(), shared.end(), start.begin(), start.end());
    shared = shared.substr(0, static_cast<std::size_t>(differs.first - shared.begin()));
  }
  std::size_t bytes = shared.size();
  // No letter of several bytes is cut.
  const std::string& start = host.first->start;
  while (bytes > 0 && bytes < start.size() &&
         (static_cast<unsigned char>(start[bytes]) & 0xC0U) == 0x80U)
    --bytes;
  return bytes;
}

json HostToJson(const HostOfRanks& host) {
  const std::size_t shared = SharedBegin(host);
  json slots = json::array();
  json starts = json::array();
  for (const Member* member : host.members) {
    slots.push_back(member->slot);
    starts.push_back(member->start.substr(shared));
  }
  return {{"podUid", host.first->pod_uid}, {"pod", host.first->pod},
          {"node", host.first->node},      {"address", host.first->address},
          {"slots", std::move(slots)},     {"start", host.first->start.substr(0, shared)},
          {"starts", std::move(starts)}};
}

const std::string* Text(const json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : found->get_ptr<const std::string*>();
}

const json* List(const json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || !found->is_array() ? nullptr : &*found;
}

// A number from 0 to `limit`.
std::optional<int> Number(const json& value, std::int64_t limit) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(limit)) {
    return std::nullopt;
  }
  const auto wide = value.get<std::int64_t>();
  if (wide < 0 || wide > limit) return std::nullopt;
  return static_cast<int>(wide);
}

// A host's members, in their order; ranks are not known yet.
bool ReadHost(const json& value, std::vector<Member>& members) {
  if (!value.is_object()) return false;
  const std::string* pod_uid = Text(value, "podUid");
  const std::string* pod = Text(value, "pod");
  const std::string* node = Text(value, "node");
  const std::string* address = Text(value, "address");
  const std::string* start = Text(value, "start");
  const json* slots = List(value, "slots");
  const json* starts = List(value, "starts");
  if (pod_uid == nullptr || pod == nullptr || node == nullptr || address == nullptr ||
      start == nullptr || slots == nullptr || starts == nullptr ||
      slots->size() != starts->size() || slots->size() > static_cast<std::size_t>(kMaxRanks)) {
    return false;
  }
  for (std::size_t i = 0; i < slots->size(); ++i) {
    const std::optional<int> slot = Number((*slots)[i], kMaxRanks);
    const auto* rest = (*starts)[i].get_ptr<const std::string*>();
    if (!slot || rest == nullptr) return false;
    members.push_back({*pod_uid, *pod, *node, *address, *slot, *start + *rest, 0});
  }
  return true;
}

}  // namespace

json MembersToJson(const std::vector<Member>& members) {
  using Key = std::tuple<std::string_view, std::string_view, std::string_view, std::string_view>;
  std::vector<HostOfRanks> hosts;
  std::map<Key, std::size_t> places;
  json order = json::array();
  std::size_t last = 0;
  std::size_t run = 0;
  for (const Member& member : members) {
    const Key key{member.pod_uid, member.pod, member.node, member.address};
    const auto [place, fresh] = places.try_emplace(key, hosts.size());
    if (fresh) hosts.push_back({&member, {}});
    hosts[place->second].members.push_back(&member);
    if (run > 0 && place->second != last) {
      order.push_back(last);
      order.push_back(std::exchange(run, 0));
    }
    last = place->second;
    ++run;
  }
  if (run > 0) {
    order.push_back(last);
    order.push_back(run);
  }
  json list = json::array();
  for (const HostOfRanks& host : hosts) list.push_back(HostToJson(host));
  return {{"hosts", std::move(list)}, {"order", std::move(order)}};
}

const char* MembersFromJson(const json& value, std::vector<Member>& members) {
  members.clear();
  const json* hosts = value.is_object() ? List(value, "hosts") : nullptr;
  const json* order = value.is_object() ? List(value, "order") : nullptr;
  if (hosts == nullptr || order == nullptr) return "expected hosts and their order";
  if (hosts->size() > static_cast<std::size_t>(kMaxRanks)) return "has too many hosts";
  std::vector<std::vector<Member>> of_hosts(hosts->size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < hosts->size(); ++i) {
    if (!ReadHost((*hosts)[i], of_hosts[i])) return "has a host that is none";
    count += of_hosts[i].size();
    if (count > static_cast<std::size_t>(kMaxRanks)) return "has too many ranks";
  }
  std::vector<std::size_t> taken(of_hosts.size());
  members.reserve(count);
  if (order->size() % 2 != 0) return "has an order that is none";
  for (std::size_t i = 0; i < order->size(); i += 2) {
    const std::optional<int> host = Number((*order)[i], std::ssize(of_hosts) - 1);
    const std::optional<int> run = Number((*order)[i + 1], kMaxRanks);
    if (!host || !run) return "has an order that is none";
    std::vector<Member>& of_host = of_hosts[static_cast<std::size_t>(*host)];
    std::size_t& next = taken[static_cast<std::size_t>(*host)];
    if (static_cast<std::size_t>(*run) > of_host.size() - next)
      return "names more ranks than hosts have";
    for (int j = 0; j < *run; ++j) {
      members.push_back(std::move(of_host[next++]));
      members.back().rank = static_cast<int>(members.size()) - 1;
    }
  }
  return members.size() == count ? nullptr : "leaves ranks of a host without a place";
}

}  // namespace ringmaster::control::wire
