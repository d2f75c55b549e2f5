#include "common/control/master_port.h"

#include <cstdint>
#include <string>

namespace ringmaster::control {

int MasterPortOf(std::string_view job_uid, const Epoch& epoch) {
  constexpr int kFirst = 20000;
  constexpr uint32_t kPorts = 10000;
  const std::string world =
      std::string(job_uid) + '/' + std::to_string(epoch.term) + '.' + std::to_string(epoch.number);
  uint32_t hash = 2166136261U;  // FNV-1a: the same in every build
  for (const char c : world) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return kFirst + static_cast<int>(hash % kPorts);
}

}  // namespace ringmaster::control
