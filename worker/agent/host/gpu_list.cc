#include "worker/agent/host/gpu_list.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>

namespace ringmaster::agent {
namespace {

std::vector<std::string> Items(const std::string& list) {
  std::vector<std::string> items;
  std::istringstream text(list);
  for (std::string item; std::getline(text, item, ',');) {
    const std::size_t begin = item.find_first_not_of(" \t");
    const std::size_t end = item.find_last_not_of(" \t");
    items.push_back(begin == std::string::npos ? "" : item.substr(begin, end + 1 - begin));
  }
  return items;
}

bool IsUuid(const std::string& text) {
  return text.starts_with("GPU-") || text.starts_with("MIG-");
}

// Returns the device with this UUID or number; null if no device matches.
const GpuDevice* Named(const std::vector<GpuDevice>& devices, const std::string& name) {
  if (IsUuid(name)) {
    const auto found = std::ranges::find_if(
        devices, [&](const GpuDevice& device) { return device.uuid.starts_with(name); });
    return found == devices.end() ? nullptr : &*found;
  }
  std::size_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, number);
  if (error != std::errc() || stop != end || number >= devices.size()) return nullptr;
  return &devices[number];
}

}  // namespace

// Parses lines like "GPU 0: NVIDIA A100 (UUID: GPU-…)", each followed by its MIG devices like " MIG
// 1g.5gb Device 0: (UUID: MIG-…)". A GPU that does not answer has an error message in its line.
std::vector<GpuDevice> ListedGpus(const std::string& output) {
  constexpr std::string_view kUuid = "(UUID: ";
  std::vector<GpuDevice> devices;
  std::istringstream text(output);
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("Unable to determine the device handle")) devices.push_back({"", line});
    const std::size_t at = line.find(kUuid);
    if (at == std::string::npos) continue;
    const std::size_t begin = at + kUuid.size();
    const std::string uuid = line.substr(begin, line.find(')', begin) - begin);
    const bool instance = uuid.starts_with("MIG-");
    if (instance && !devices.empty() && devices.back().uuid.starts_with("GPU-")) devices.pop_back();
    devices.push_back({uuid});
  }
  return devices;
}

std::vector<std::string> AssignedGpus(const std::string& visible) {
  std::vector<std::string> assigned = Items(visible);
  std::erase_if(assigned, [](const std::string& item) { return !IsUuid(item); });
  return assigned;
}

std::vector<std::string> AssignGpus(const std::vector<GpuDevice>& devices, int slots) {
  std::vector<std::string> known;
  for (const GpuDevice& device : devices) {
    if (!device.uuid.empty()) known.push_back(device.uuid);
  }
  const std::size_t each = known.size() / static_cast<std::size_t>(slots);
  if (each == 0) return {};
  std::vector<std::string> assigned(static_cast<std::size_t>(slots));
  for (std::size_t i = 0; i < each * assigned.size(); ++i) {
    std::string& list = assigned[i / each];
    list += (list.empty() ? "" : ",") + known[i];
  }
  return assigned;
}

std::vector<GpuDevice> ChooseGpus(const std::vector<GpuDevice>& devices,
                                  const std::string& visible) {
  std::vector<GpuDevice> chosen;
  for (const std::string& item : Items(visible)) {
    const GpuDevice* const device = Named(devices, item);
    if (device == nullptr) break;
    chosen.push_back(*device);
  }
  return chosen;
}

}  // namespace ringmaster::agent
