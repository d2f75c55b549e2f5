#include "worker/launcher/model/takeover.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "common/control/membership.h"
#include "worker/launcher/model/next_world.h"

namespace ringmaster::launcher {
namespace {

constexpr std::size_t kMaxEarly = 4 * control::kMaxRanks;  // four messages for each rank

}  // namespace

void Takeover::Report(const std::string& pod_uid, const control::WorldReport& report) {
  reports_[pod_uid] = {report.epoch, report.running};
  newest_ = std::max(newest_, report.epoch);
  if (report.released) released_ = std::max(released_, report.epoch);
  if (report.members.empty() || report.epoch <= epoch_) return;
  epoch_ = report.epoch;
  members_ = report.members;
}

void Takeover::ForgetReports() {
  reports_.clear();
  newest_ = epoch_ = released_ = {};
  members_.clear();
}

bool Takeover::Knows(const std::string& pod_uid) const {
  const auto report = reports_.find(pod_uid);
  return report != reports_.end() && report->second.epoch == newest_;
}

std::optional<bool> Takeover::Runs(const control::Member& member) const {
  const auto report = reports_.find(member.pod_uid);
  if (report == reports_.end()) return std::nullopt;
  const std::vector<std::string>& running = report->second.running;
  return std::find(running.begin(), running.end(), member.start) != running.end();
}

bool Takeover::MostReported() const {
  const std::set<std::string> pods = PodsOf(members_);
  const auto reported = std::count_if(pods.begin(), pods.end(), [&](const std::string& pod_uid) {
    return reports_.contains(pod_uid);
  });
  return 2 * reported > std::ssize(pods);
}

bool Takeover::StartedEverywhere() const {
  return std::all_of(members_.begin(), members_.end(), [&](const auto& member) {
    const auto report = reports_.find(member.pod_uid);
    return report != reports_.end() && report->second.epoch == epoch_;
  });
}

bool Takeover::MembersPending(const control::Epoch& known, const Connections& connections) const {
  return newest_ > known && newest_ > epoch_ &&
         std::any_of(connections.begin(), connections.end(),
                     [&](const auto& entry) { return Knows(entry.second); });
}

std::optional<ConnectionId> Takeover::AskNow(Time now, const Connections& connections,
                                             std::chrono::milliseconds again) {
  if (connections.contains(asked_) && now - asked_at_ < again) return std::nullopt;
  const auto knows = [&](const auto& entry) { return Knows(entry.second); };
  auto next = std::find_if(connections.upper_bound(asked_), connections.end(), knows);
  if (next == connections.end()) next = std::find_if(connections.begin(), connections.end(), knows);
  asked_ = next->first;
  asked_at_ = now;
  return asked_;
}

void Takeover::Keep(const std::string& pod_uid, int rank, control::Message message) {
  const std::tuple key(pod_uid, rank, message.index());
  if (early_.size() < kMaxEarly || early_.contains(key)) early_[key] = std::move(message);
}

}  // namespace ringmaster::launcher
