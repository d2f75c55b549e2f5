#include "worker/launcher/model/stall_watch.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace ringmaster::launcher {
namespace {

using control::CollectiveCounts;
using control::CollectiveKind;
using control::RankPhase;
using control::RankPosition;

constexpr std::size_t kFewSteps = 5;
constexpr std::size_t kSteps = 64;  // number of steps for the median
constexpr int kOfMedian = 10;
constexpr int kWhileEntering = 5;
constexpr int kWhileUnknown = 30;
constexpr int kForACrowd = 3;
constexpr std::size_t kRecorded = 16;  // maximum number of ranks that Record() lists
constexpr int64_t kMaxStepMicros = int64_t{86'400} * 1'000'000;

// How far a rank has come in a world; later values mean more progress.
enum Stage { kBefore, kConnecting, kAdopting, kStepping, kLeft };

Stage StageOf(const RankPosition& position) {
  if (!position.entered) return kBefore;
  switch (position.phase) {
    case RankPhase::kConnect:
      return kConnecting;
    case RankPhase::kAdopt:
      return kAdopting;
    case RankPhase::kWait:
      return kLeft;
    default:
      return kStepping;
  }
}

auto PlaceKey(const RankPosition& position) {
  return std::tuple(StageOf(position), position.step, position.phase, position.bucket);
}

// Returns the name of a stage of connecting; empty if the rank reports none, as with Gloo.
std::string StageText(int stage) {
  if (stage <= 0 || stage >= static_cast<int>(control::kConnectStageTexts.size())) return "";
  return std::string(" where it ") + control::kConnectStageTexts[static_cast<std::size_t>(stage)];
}

// Returns whether the rank waits for other ranks or for the launcher.
bool Waits(const RankPosition& position) {
  if (position.stopped || !position.entered) return false;
  switch (position.phase) {
    case RankPhase::kWait:
    case RankPhase::kConnect:
    case RankPhase::kAdopt:
    case RankPhase::kReduce:
    case RankPhase::kDone:
      return true;
    default:
      return false;
  }
}

}  // namespace

void StallWatch::Begin(Time now, int ranks) {
  positions_.assign(static_cast<std::size_t>(ranks), std::nullopt);
  reported_at_.assign(static_cast<std::size_t>(ranks), Time{});
  moved_at_ = now;
}

void StallWatch::Report(Time now, const RankPosition& position) {
  const auto rank = static_cast<std::size_t>(position.rank);
  std::optional<RankPosition>& known = positions_[rank];
  if (!known || PlaceKey(*known) != PlaceKey(position) ||
      known->collectives != position.collectives) {
    moved_at_ = now;
  }
  const bool new_step = !known || known->step != position.step;
  if (new_step && position.entered && position.step_micros > 0) {
    step_micros_.push_back(std::min(position.step_micros, kMaxStepMicros));
    if (step_micros_.size() > kSteps) step_micros_.pop_front();
  }
  known = position;
  reported_at_[rank] = now;
}

std::optional<StallWatch::Judgement> StallWatch::Judge(Time now) const {
  if (floor_.count() == 0 || positions_.size() < 2 || !AllFresh(now)) return std::nullopt;
  std::vector<int> all;
  std::vector<int> idle;  // ranks that do not wait for others
  bool stopped = true;    // whether a signal stopped all idle ranks
  for (std::size_t i = 0; i < positions_.size(); ++i) {
    all.push_back(static_cast<int>(i));
    if (Waits(*positions_[i])) continue;
    idle.push_back(static_cast<int>(i));
    stopped = stopped && positions_[i]->stopped;
  }
  if (idle.size() == all.size()) return std::nullopt;  // no rank waits for another
  const Millis limit = Limit(idle.empty() ? all : idle);
  const auto still = now - moved_at_;
  if (still < limit) return std::nullopt;
  if (idle.empty()) {
    const std::vector<int> last = Hindmost(all);
    if (last.size() == all.size()) return LastInCollectives();
    const bool left = StageOf(*positions_[static_cast<std::size_t>(last.front())]) == kLeft;
    if (last.size() > 1 || left) return std::nullopt;  // several ranks are behind, or all have left
    return Judgement{last, moved_at_};
  }
  if (stopped) return Judgement{idle, moved_at_};
  std::vector<int> last = Hindmost(idle);
  if (last.size() > 1 && 2 * last.size() >= all.size()) {
    if (still < kForACrowd * limit) return std::nullopt;
    last = {last.back()};
  }
  return Judgement{last, moved_at_};
}

// Blames the rank with the fewest collectives. REQUIRES: all ranks wait at the same place.
std::optional<StallWatch::Judgement> StallWatch::LastInCollectives() const {
  if (positions_.front()->phase != RankPhase::kReduce) return std::nullopt;
  for (const auto count : {&CollectiveCounts::launched, &CollectiveCounts::begun}) {
    std::vector<int> last;
    int64_t lowest = std::numeric_limits<int64_t>::max();
    int64_t highest = 0;
    for (const auto& position : positions_) {
      const int64_t here = position->collectives.*count;
      if (here < 0) return std::nullopt;
      highest = std::max(highest, here);
      if (here < lowest) last.clear();
      lowest = std::min(lowest, here);
      if (here == lowest) last.push_back(position->rank);
    }
    if (lowest == highest) continue;
    if (last.size() > 1) return std::nullopt;
    const bool launched = count == &CollectiveCounts::launched;
    std::string missing =
        launched ? "it never launched collective " : "its device never reached collective ";
    missing +=
        std::to_string(lowest + 1) + KindText(lowest + 1) + " of this world, which all others did";
    return Judgement{last, moved_at_, missing};
  }
  return std::nullopt;
}

// Returns the kind of the collective with this number, if a rank reports it; otherwise empty.
std::string StallWatch::KindText(int64_t number) const {
  for (const auto& position : positions_) {
    const CollectiveCounts& counts = position->collectives;
    if (counts.begun != number || counts.kind == CollectiveKind::kNone) continue;
    return std::string(" (") + control::kCollectiveNames[static_cast<std::size_t>(counts.kind)] +
           ")";
  }
  return "";
}

std::optional<StallWatch::Time> StallWatch::StalledSince(Time now) const {
  if (floor_.count() == 0 || positions_.size() < 2 || !AllFresh(now)) return std::nullopt;
  const bool for_others =
      std::any_of(positions_.begin(), positions_.end(), [](const auto& position) {
        return StageOf(*position) <= kStepping && Waits(*position) &&
               position->phase != RankPhase::kDone;
      });
  std::vector<int> all(positions_.size());
  std::iota(all.begin(), all.end(), 0);
  if (!for_others || now - moved_at_ < Limit(all)) return std::nullopt;
  return moved_at_;
}

std::string StallWatch::Record() const {
  const auto key = [&](int rank) {
    const RankPosition& position = *positions_[static_cast<std::size_t>(rank)];
    return std::tuple(PlaceKey(position), position.collectives.launched, position.collectives.begun,
                      rank);
  };
  std::vector<int> ranks(positions_.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  const std::size_t shown = std::min(ranks.size(), kRecorded);
  std::partial_sort(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(shown), ranks.end(),
                    [&](int a, int b) { return key(a) < key(b); });
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    const CollectiveCounts& counts = positions_[static_cast<std::size_t>(ranks[i])]->collectives;
    text += (i == 0 ? "rank " : "; rank ") + std::to_string(ranks[i]) + " " + PlaceOf(ranks[i]);
    if (counts.launched < 0) continue;
    text += ", collectives launched " + std::to_string(counts.launched);
    if (counts.begun >= 0) text += ", begun " + std::to_string(counts.begun);
  }
  return text;
}

std::map<int, int> StallWatch::CannotConnect(Time now) const {
  std::map<int, int> peers;
  if (floor_.count() == 0 || positions_.empty() || !AllFresh(now)) return peers;
  if (now - moved_at_ < EnteringLimit()) return peers;
  for (const auto& position : positions_) {
    if (StageOf(*position) != kConnecting || position->stopped) return {};
    // If a rank is further behind, all others wait for it, even if they report another peer.
    if (position->bucket != positions_.front()->bucket) return {};
    if (position->peer >= 0) peers[position->rank] = position->peer;
  }
  return peers;
}

std::string StallWatch::PlaceOf(int rank) const {
  const std::optional<RankPosition>& position = positions_[static_cast<std::size_t>(rank)];
  if (!position) return "at an unknown position";
  std::string text = "at step " + std::to_string(position->step) + ", in phase '" +
                     control::kRankPhaseNames[static_cast<std::size_t>(position->phase)] + "'";
  if (position->phase == RankPhase::kReduce)
    text += " of bucket " + std::to_string(position->bucket);
  if (position->phase == RankPhase::kConnect) text += StageText(position->bucket);
  if (!position->entered) text += " of an earlier world";
  if (position->stopped) text += ", stopped by a signal";
  if (position->peer >= 0) text += ", waiting for rank " + std::to_string(position->peer);
  return text;
}

std::optional<StallWatch::Millis> StallWatch::MedianStep() const {
  if (step_micros_.size() < kFewSteps) return std::nullopt;
  std::vector<int64_t> sorted(step_micros_.begin(), step_micros_.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return std::chrono::ceil<Millis>(std::chrono::microseconds(*middle));
}

bool StallWatch::AllFresh(Time now) const {
  for (std::size_t i = 0; i < positions_.size(); ++i) {
    if (!positions_[i] || now - reported_at_[i] > fresh_) return false;
  }
  return true;
}

// Returns after what time without progress to blame `suspects`. REQUIRES: all ranks reported.
StallWatch::Millis StallWatch::Limit(const std::vector<int>& suspects) const {
  const std::optional<Millis> median = MedianStep();
  bool unknown = !median;
  for (const auto& position : positions_) {
    // A rank that a signal stopped does not evaluate or start anything in any phase.
    unknown = unknown || (!position->stopped && position->phase == RankPhase::kEvaluate);
  }
  bool outside = false;
  bool starting = false;
  for (const int rank : suspects) {
    const RankPosition& position = *positions_[static_cast<std::size_t>(rank)];
    outside = outside || !position.entered;
    starting = starting || (!position.stopped && position.entered && position.applied_millis < 0);
  }
  if (unknown) return kWhileUnknown * floor_;
  // A rank that has not entered this world has not started NCCL or cuDNN in it.
  if (outside) return EnteringLimit();
  return starting ? kWhileUnknown * floor_ : std::max(kOfMedian * *median, floor_);
}

StallWatch::Millis StallWatch::EnteringLimit() const {
  const std::optional<Millis> median = MedianStep();
  if (!median) return kWhileUnknown * floor_;
  return std::max(kOfMedian * *median, kWhileEntering * floor_);
}

// Returns the ranks among `ranks` that have made the least progress.
std::vector<int> StallWatch::Hindmost(const std::vector<int>& ranks) const {
  std::vector<int> last;
  for (const int rank : ranks) {
    const auto place = PlaceKey(*positions_[static_cast<std::size_t>(rank)]);
    if (!last.empty()) {
      const auto lowest = PlaceKey(*positions_[static_cast<std::size_t>(last.front())]);
      if (place > lowest) continue;
      if (place < lowest) last.clear();
    }
    last.push_back(rank);
  }
  return last;
}

}  // namespace ringmaster::launcher
