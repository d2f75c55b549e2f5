#include "worker/launcher/adoption.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace ringmaster::launcher {

void Adoption::Report(const std::string& pod_uid, const control::WorldReport& report) {
  reports_[pod_uid] = {report.epoch, report.running};
  newest_ = std::max(newest_, report.epoch);
  if (report.members.empty() || report.epoch <= epoch_) return;
  epoch_ = report.epoch;
  members_ = report.members;
}

void Adoption::Clear() { *this = {}; }

bool Adoption::Knows(const std::string& pod_uid) const {
  const auto report = reports_.find(pod_uid);
  return report != reports_.end() && report->second.epoch == newest_;
}

std::optional<bool> Adoption::Runs(const control::Member& member) const {
  const auto report = reports_.find(member.pod_uid);
  if (report == reports_.end()) return std::nullopt;
  const std::vector<std::string>& running = report->second.running;
  return std::find(running.begin(), running.end(), member.start) != running.end();
}

bool Adoption::HeardFromMost() const {
  std::set<std::string> pods;
  for (const control::Member& member : members_) pods.insert(member.pod_uid);
  const auto heard = std::count_if(pods.begin(), pods.end(), [&](const std::string& pod_uid) {
    return reports_.contains(pod_uid);
  });
  return 2 * heard > std::ssize(pods);
}

bool Adoption::StartedEverywhere() const {
  return std::all_of(members_.begin(), members_.end(), [&](const auto& member) {
    const auto report = reports_.find(member.pod_uid);
    return report != reports_.end() && report->second.epoch == epoch_;
  });
}

}  // namespace ringmaster::launcher
