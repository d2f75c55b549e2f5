#include "worker/agent/host/program_signs.h"

#include <system_error>
#include <utility>

#include "worker/agent/config/config.h"

namespace ringmaster::agent {

std::chrono::milliseconds ProgramSigns::Still(Time now, int slot, const control::Epoch& epoch) {
  Slot& signs = slots_[slot];
  std::error_code none;
  const auto touched = std::filesystem::last_write_time(HeartbeatFile(folder_, slot), none);
  const bool beat = !none && std::exchange(signs.touched, touched) != touched;
  if (beat || std::exchange(signs.epoch, epoch) != epoch) signs.last = now;
  return std::chrono::duration_cast<std::chrono::milliseconds>(now - signs.last);
}

}  // namespace ringmaster::agent
