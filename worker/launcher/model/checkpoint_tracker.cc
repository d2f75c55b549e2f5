#include "worker/launcher/model/checkpoint_tracker.h"

#include <algorithm>

namespace ringmaster::launcher {
namespace {

constexpr std::size_t kMostFaultBytes = 400;
constexpr std::chrono::milliseconds kLongestAge{std::chrono::hours(24 * 3650)};
constexpr std::size_t kMostBeginningBytes = 800;

// Returns whether the message is from a member of world `epoch` in this Pod.
template <typename OfRank>
bool SpeaksAsMember(const OfRank& said, const std::string& pod_uid, const control::Epoch& epoch,
                    const std::vector<control::Member>& members) {
  return said.epoch == epoch && said.rank >= 0 &&
         static_cast<std::size_t>(said.rank) < members.size() &&
         members[static_cast<std::size_t>(said.rank)].pod_uid == pod_uid;
}

}  // namespace

bool CheckpointTracker::Grants(const control::CheckpointWritten& written,
                               const std::string& pod_uid, const control::Epoch& epoch,
                               const std::vector<control::Member>& members) {
  if (!SpeaksAsMember(written, pod_uid, epoch, members)) return false;
  const int slot = members[static_cast<std::size_t>(written.rank)].slot;
  granted_[{pod_uid, slot}] = written;
  return true;
}

void CheckpointTracker::Completed(Time now, const std::string& pod_uid,
                                  const control::CheckpointDone& done) {
  const bool granted = std::ranges::any_of(granted_, [&](const auto& entry) {
    const auto& [to, grant] = entry;
    return to.first == pod_uid && grant.epoch == done.epoch && grant.rank == done.rank &&
           grant.step == done.step;
  });
  if (granted) NoteDone(now, done);
}

void CheckpointTracker::CompletedBefore(Time now, const std::string& pod_uid,
                                        const control::CheckpointDone& done,
                                        const std::vector<control::Member>& members) {
  const bool of_member = std::ranges::any_of(
      members, [&](const control::Member& member) { return member.pod_uid == pod_uid; });
  if (of_member) NoteDone(now, done);
}

void CheckpointTracker::NoteDone(Time now, const control::CheckpointDone& done) {
  const bool news = !newest_ || newest_->epoch < done.epoch ||
                    (newest_->epoch == done.epoch && newest_->step < done.step);
  if (news && done.step > 0) {
    newest_ = Done{done.epoch, done.step, std::max<int64_t>(0, done.bytes), now};
  }
}

void CheckpointTracker::Began(Time now, const control::RankBegan& began, const std::string& pod_uid,
                              const control::Epoch& epoch,
                              const std::vector<control::Member>& members) {
  if (began.rank != 0 || !SpeaksAsMember(began, pod_uid, epoch, members)) return;
  // A checkpoint that was completed in this world or a later one is newer than `kept`.
  const bool first = !newest_ || newest_->epoch < began.epoch;
  if (began.kept && began.kept->step > 0 && first) {
    const auto age = std::clamp<int64_t>(began.kept->age_millis, 0, kLongestAge.count());
    newest_ = Done{began.epoch, began.kept->step, std::max<int64_t>(0, began.kept->bytes),
                   now - std::chrono::milliseconds(age)};
  }
  if (began.beginning.message.empty()) return;
  beginning_ = {std::max<int64_t>(0, began.beginning.step),
                began.beginning.message.substr(0, kMostBeginningBytes)};
}

bool CheckpointTracker::AskNow(Time now, bool wanted, const control::Epoch& epoch, int64_t step) {
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

void CheckpointTracker::Protection(const std::string& pod_uid, const std::string& pod,
                                   const control::RankProtection& protection) {
  const std::tuple key(pod_uid, protection.slot, protection.what);
  if (protection.fault.empty()) {
    faults_.erase(key);
  } else {
    faults_[key] = {protection.what, pod, protection.fault.substr(0, kMostFaultBytes)};
  }
}

void CheckpointTracker::Forget(const std::string& pod_uid, std::optional<int> slot) {
  std::erase_if(granted_, [&](const auto& entry) {
    return entry.first.first == pod_uid && (!slot || entry.first.second == *slot);
  });
  std::erase_if(faults_, [&](const auto& entry) {
    return std::get<0>(entry.first) == pod_uid && (!slot || std::get<1>(entry.first) == *slot);
  });
}

std::optional<control::CheckpointReport> CheckpointTracker::Newest(Time now) const {
  if (!newest_) return std::nullopt;
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(now - newest_->at);
  return control::CheckpointReport{newest_->epoch, newest_->step, age.count(), newest_->bytes};
}

std::vector<control::ProtectionFault> CheckpointTracker::Faults() const {
  std::vector<control::ProtectionFault> faults;
  for (const auto& [key, fault] : faults_) {
    const bool known =
        std::ranges::find(faults, fault.what, &control::ProtectionFault::what) != faults.end();
    if (!known && faults.size() < kMostFaults) faults.push_back(fault);
  }
  return faults;
}

}  // namespace ringmaster::launcher
