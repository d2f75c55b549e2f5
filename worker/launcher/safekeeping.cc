#include "worker/launcher/safekeeping.h"

#include <algorithm>

namespace ringmaster::launcher {
namespace {

constexpr std::size_t kMostFaultBytes = 400;

}  // namespace

bool Safekeeping::Grants(const control::CheckpointWritten& written, const std::string& pod_uid,
                         const control::Epoch& epoch, const std::vector<control::Member>& members) {
  return written.epoch == epoch && written.rank >= 0 &&
         static_cast<std::size_t>(written.rank) < members.size() &&
         members[static_cast<std::size_t>(written.rank)].pod_uid == pod_uid;
}

void Safekeeping::Completed(Time now, const control::CheckpointDone& done) {
  const bool news = !newest_ || newest_->epoch < done.epoch ||
                    (newest_->epoch == done.epoch && newest_->step < done.step);
  if (news && done.step > 0) newest_ = Done{done.epoch, done.step, now};
}

bool Safekeeping::AskNow(Time now, bool wanted, const control::Epoch& epoch, int64_t step) {
  if (!wanted) {
    wanted_step_.reset();
    asked_ = {};
    return false;
  }
  if (!wanted_step_) wanted_step_ = step;
  if (newest_ && newest_->step >= *wanted_step_) return false;
  if (asked_ == epoch && now - asked_at_ < kAskAgain) return false;
  asked_ = epoch;
  asked_at_ = now;
  return true;
}

void Safekeeping::Protection(const std::string& pod_uid, const std::string& pod,
                             const control::RankProtection& protection) {
  const std::tuple key(pod_uid, protection.slot, protection.what);
  if (protection.fault.empty()) {
    faults_.erase(key);
  } else {
    faults_[key] = {protection.what, pod, protection.fault.substr(0, kMostFaultBytes)};
  }
}

void Safekeeping::Forget(const std::string& pod_uid, int slot) {
  std::erase_if(faults_, [&](const auto& entry) {
    return std::get<0>(entry.first) == pod_uid && (slot < 0 || std::get<1>(entry.first) == slot);
  });
}

std::optional<control::CheckpointReport> Safekeeping::Newest(Time now) const {
  if (!newest_) return std::nullopt;
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(now - newest_->at);
  return control::CheckpointReport{newest_->epoch, newest_->step,
                                   std::max<int64_t>(0, age.count())};
}

std::vector<control::ProtectionFault> Safekeeping::Faults() const {
  std::vector<control::ProtectionFault> faults;
  for (const auto& [key, fault] : faults_) {
    if (faults.size() < kMostFaults) faults.push_back(fault);
  }
  return faults;
}

}  // namespace ringmaster::launcher
