#include "worker/agent/host/oom_watch.h"

#include <csignal>
#include <utility>

namespace ringmaster::agent {
namespace {

constexpr std::chrono::seconds kSameMoment{2};
constexpr int kExitOfShell = 128 + SIGKILL;  // exit code of a shell whose program was killed

}  // namespace

OomWatch::OomWatch(std::optional<MemoryGroup> group)
    : group_(std::move(group)), seen_(group_.has_value() ? group_->Kills() : 0) {}

std::optional<control::OutOfMemory> OomWatch::Explain(const ProcessEnd& end, Time now) {
  if (!group_.has_value()) return std::nullopt;
  const std::int64_t kills = group_->Kills();
  if (now - seen_at_ > kSameMoment) unexplained_ = 0;
  if (kills > seen_) {
    unexplained_ += kills - seen_;
    seen_at_ = now;
  }
  seen_ = kills;
  const bool killed = end.signal == SIGKILL || end.exit_code == kExitOfShell;
  if (!killed || unexplained_ == 0) return std::nullopt;
  --unexplained_;
  return control::OutOfMemory{group_->Limit().value_or(0), group_->Peak().value_or(0)};
}

}  // namespace ringmaster::agent
