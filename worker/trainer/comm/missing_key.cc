#include "worker/trainer/comm/missing_key.h"

#include <chrono>

namespace ringmaster::trainer {
namespace {

// How long to wait for a key that may be missing. A working store returns existing keys sooner.
constexpr std::chrono::milliseconds kProbe{200};

}  // namespace

std::optional<std::size_t> OnlyMissing(Store& store, const std::vector<std::string>& keys) {
  std::optional<std::size_t> missing;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto found = store.Get({keys[i]}, std::chrono::steady_clock::now() + kProbe);
    if (found.ok()) continue;
    if (missing || found.error().kind != ErrorKind::kTimeout) return std::nullopt;
    missing = i;
  }
  return missing;
}

}  // namespace ringmaster::trainer
