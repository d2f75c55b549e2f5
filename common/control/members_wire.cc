#include "common/control/members_wire.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "common/json/fields.h"

namespace ringmaster::control {
namespace {

// Maximum length of each text that identifies a member. Each rank of a host gets a copy of the
// host's texts, so without a limit one line could require more memory than is available.
constexpr std::size_t kMaxNameBytes = 1024;

struct Host {
  std::string pod_uid;
  std::string pod;
  std::string node;
  std::string address;
  std::vector<int> slots;
  std::string start;
  std::vector<std::string> starts;
};

void Describe(auto& a, Is<Host> auto& v) {
  a.Field("podUid", v.pod_uid);
  a.Field("pod", v.pod);
  a.Field("node", v.node);
  a.Field("address", v.address);
  a.Field("slots", v.slots);
  a.Field("start", v.start);
  a.Field("starts", v.starts);
}

struct World {
  std::vector<Host> hosts;
  std::vector<int> order;
};

void Describe(auto& a, Is<World> auto& v) {
  a.Field("hosts", v.hosts);
  a.Field("order", v.order);
}

// Removes the common prefix from all starts.
void ShareBegin(Host& host) {
  std::string_view shared = host.starts.front();
  for (const std::string& start : host.starts) {
    const auto differs = std::mismatch(shared.begin(), shared.end(), start.begin(), start.end());
    shared = shared.substr(0, static_cast<std::size_t>(differs.first - shared.begin()));
  }
  std::size_t bytes = shared.size();
  // Do not cut within a multi-byte character.
  const std::string& first = host.starts.front();
  while (bytes > 0 && bytes < first.size() &&
         (static_cast<unsigned char>(first[bytes]) & 0xC0U) == 0x80U)
    --bytes;
  host.start = first.substr(0, bytes);
  for (std::string& start : host.starts) start.erase(0, bytes);
}

}  // namespace

Json ByHost::Write(const std::vector<Member>& members) const {
  using Key = std::tuple<std::string_view, std::string_view, std::string_view, std::string_view>;
  World world;
  std::map<Key, int> places;
  for (const Member& member : members) {
    const auto [place, fresh] =
        places.try_emplace(Key{member.pod_uid, member.pod, member.node, member.address},
                           static_cast<int>(world.hosts.size()));
    if (fresh) {
      world.hosts.push_back({member.pod_uid, member.pod, member.node, member.address, {}, {}, {}});
    }
    Host& host = world.hosts[static_cast<std::size_t>(place->second)];
    host.slots.push_back(member.slot);
    host.starts.push_back(member.start);
    std::vector<int>& order = world.order;
    if (order.empty() || order[order.size() - 2] != place->second) {
      order.insert(order.end(), {place->second, 0});
    }
    ++order.back();
  }
  for (Host& host : world.hosts) ShareBegin(host);
  return ToJson(world);
}

std::string ByHost::Read(const Json& json, std::vector<Member>& members) const {
  members.clear();
  const auto most = static_cast<std::size_t>(kMaxRanks);
  if (json.is_object()) {  // check the sizes before allocating memory
    const auto hosts = json.find("hosts");
    if (hosts != json.end() && hosts->size() > most) return "has too many hosts";
  }
  const Result<World> world = FromJson<World>(json);
  if (!world.ok()) return "expected hosts and their order: " + world.error().message;
  std::size_t count = 0;
  for (const Host& host : world->hosts) {
    const auto fits = [](int slot) { return slot >= 0 && slot <= kMaxRanks; };
    const auto too_long = [&](const std::string& start) {
      return host.start.size() + start.size() > kMaxNameBytes;
    };
    if (std::max({host.pod_uid.size(), host.pod.size(), host.node.size(), host.address.size()}) >
            kMaxNameBytes ||
        std::ranges::any_of(host.starts, too_long)) {
      return "has a host with names that are too long";
    }
    if (host.slots.size() != host.starts.size() || !std::ranges::all_of(host.slots, fits)) {
      return "has a host with invalid slots";
    }
    count += host.slots.size();
    if (count > most) return "has too many ranks";
  }
  const std::vector<int>& order = world->order;
  if (order.size() % 2 != 0) return "has an order that is not a list of pairs";
  std::vector<std::size_t> taken(world->hosts.size());
  members.reserve(count);
  for (std::size_t i = 0; i < order.size(); i += 2) {
    if (order[i] < 0 || order[i] >= std::ssize(world->hosts))
      return "refers to a host that does not exist";
    const auto place = static_cast<std::size_t>(order[i]);
    const Host& host = world->hosts[place];
    std::size_t& next = taken[place];
    if (order[i + 1] < 0 ||
        order[i + 1] > std::ssize(host.slots) - static_cast<std::ptrdiff_t>(next)) {
      return "names more ranks than hosts have";
    }
    for (int j = 0; j < order[i + 1]; ++j, ++next) {
      members.push_back({host.pod_uid, host.pod, host.node, host.address, host.slots[next],
                         host.start + host.starts[next], static_cast<int>(members.size())});
    }
  }
  return members.size() == count ? "" : "does not place all ranks of a host";
}

}  // namespace ringmaster::control
