#include "worker/agent/slots/restart_policy.h"

#include <algorithm>

#include "common/base/backoff.h"
#include "common/control/exit_codes.h"

namespace ringmaster::agent {
namespace {

constexpr std::chrono::milliseconds kQuick{10'000};
constexpr BackoffOptions kDelays{std::chrono::milliseconds(1000),
                                 std::chrono::milliseconds(30'000)};

}  // namespace

std::optional<std::chrono::milliseconds> RestartPolicy::OnEnd(const ProcessEnd& end,
                                                              std::chrono::milliseconds lived,
                                                              bool had_world) {
  const bool hopeless = end.exit_code == control::kExitUserError ||
                        end.exit_code == control::kExitCannotStart ||
                        end.exit_code == control::kExitDeviceUnhealthy;
  if (hopeless || (end.exit_code == 0 && !had_world)) return std::nullopt;
  quick_deaths_ = lived < kQuick ? quick_deaths_ + 1 : 0;
  if (quick_deaths_ < 2) return std::chrono::milliseconds(0);
  return BackoffDelay(kDelays, quick_deaths_ - 1, 0);
}

std::chrono::milliseconds RestartPolicy::OnCannotStart() {
  quick_deaths_ = std::max(quick_deaths_ + 1, 2);
  return BackoffDelay(kDelays, quick_deaths_ - 1, 0);
}

}  // namespace ringmaster::agent
