#include "worker/launcher/adoption.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace ringmaster::launcher {

void Adoption::Report(const std::string& pod_uid, const control::WorldReport& report) {
  reports_[pod_uid] = report;
}

const control::WorldReport& Adoption::Newest() const {
  return std::max_element(
             reports_.begin(), reports_.end(),
             [](const auto& a, const auto& b) { return a.second.epoch < b.second.epoch; })
      ->second;
}

std::optional<bool> Adoption::Runs(const control::Member& member) const {
  const auto report = reports_.find(member.pod_uid);
  if (report == reports_.end()) return std::nullopt;
  const std::vector<std::string>& running = report->second.running;
  return std::find(running.begin(), running.end(), member.start) != running.end();
}

bool Adoption::HeardFromMost() const {
  std::set<std::string> pods;
  for (const control::Member& member : Newest().members) pods.insert(member.pod_uid);
  const auto heard = std::count_if(pods.begin(), pods.end(), [&](const std::string& pod_uid) {
    return reports_.contains(pod_uid);
  });
  return 2 * heard > std::ssize(pods);
}

bool Adoption::StartedEverywhere() const {
  const control::WorldReport& newest = Newest();
  return std::all_of(newest.members.begin(), newest.members.end(), [&](const auto& member) {
    const auto report = reports_.find(member.pod_uid);
    return report != reports_.end() && report->second.epoch == newest.epoch;
  });
}

}  // namespace ringmaster::launcher
