#include "worker/launcher/server/status_size.h"

#include <algorithm>

namespace ringmaster::launcher {
namespace {

constexpr std::size_t kMaxText = 2000;

bool NothingToSay(const control::WorkerReport& report) {
  return report.ready && report.member && !report.drained && !report.fenced &&
         report.faults.empty();
}

}  // namespace

std::string EncodeWithin(control::LauncherStatus status) {
  const std::size_t limit = control::MaxStatusBytes(static_cast<std::size_t>(status.ordered));
  if (status.message.size() > kMaxText) status.message.resize(kMaxText);
  std::string text = control::EncodeLauncherStatus(status);
  while (text.size() > limit && !status.failures.empty()) {
    status.failures.erase(
        status.failures.begin(),
        status.failures.begin() + static_cast<std::ptrdiff_t>((status.failures.size() + 1) / 2));
    text = control::EncodeLauncherStatus(status);
  }
  if (text.size() <= limit) return text;
  std::stable_partition(status.workers.begin(), status.workers.end(),
                        [](const auto& report) { return !NothingToSay(report); });
  while (text.size() > limit && !status.workers.empty()) {
    status.workers.resize(status.workers.size() * 9 / 10);
    text = control::EncodeLauncherStatus(status);
  }
  return text;
}

}  // namespace ringmaster::launcher
