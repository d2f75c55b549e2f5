#include "worker/launcher/model/straggler_watch.h"

#include <algorithm>

namespace ringmaster::launcher {
namespace {

constexpr double kNewest = 0.2;  // weight of the newest step in the smoothed time
constexpr std::size_t kFewRanks = 64;
constexpr std::chrono::milliseconds kMedianHolds{200};

}  // namespace

void StragglerWatch::Begin(const std::vector<control::Member>& members) {
  std::map<MemberId, State, std::less<>> next;
  for (const control::Member& member : members) {
    const auto known = ranks_.find(KeyOf(member));
    if (known == ranks_.end()) {
      next.emplace(IdOf(member), State{});
    } else {
      next.insert(ranks_.extract(known));
    }
  }
  ranks_ = std::move(next);
  median_.reset();
}

void StragglerWatch::Report(Time now, const control::Member& member, int64_t step,
                            int64_t own_micros) {
  State& rank = ranks_.find(KeyOf(member))->second;
  if (rank.step == step || own_micros <= 0) return;
  rank.step = step;
  const auto newest = static_cast<double>(own_micros);
  rank.own_micros =
      rank.own_micros ? *rank.own_micros + kNewest * (newest - *rank.own_micros) : newest;
  const std::optional<double> median = RecentMedian(now);
  if (!median) return;
  const bool slow = *rank.own_micros > kSlow * *median && *rank.own_micros - *median > kNoiseMicros;
  const bool known = rank.slow_since && now - *rank.slow_since >= kFor;
  if (slow && !rank.slow_since) rank.slow_since = now;
  if (!slow && !(known && *rank.own_micros >= kRecovered * *median)) rank.slow_since.reset();
}

std::vector<StragglerWatch::Slow> StragglerWatch::Stragglers(Time now) const {
  std::vector<Slow> stragglers;
  const std::optional<double> median = Median();
  if (!median) return stragglers;
  for (const auto& [id, rank] : ranks_) {
    if (!rank.slow_since || now - *rank.slow_since < kFor) continue;
    stragglers.push_back({id, *rank.own_micros, *median, *rank.slow_since});
  }
  std::sort(stragglers.begin(), stragglers.end(),
            [](const Slow& a, const Slow& b) { return a.own_micros > b.own_micros; });
  return stragglers;
}

std::optional<double> StragglerWatch::OwnMicros(const control::Member& member) const {
  const auto rank = ranks_.find(KeyOf(member));
  return rank == ranks_.end() ? std::nullopt : rank->second.own_micros;
}

// The median of a large world is slow to compute and changes little, so reuse it for kMedianHolds.
std::optional<double> StragglerWatch::RecentMedian(Time now) {
  if (ranks_.size() <= kFewRanks) return Median();
  if (!median_ || now - median_at_ >= kMedianHolds) {
    median_ = Median();
    median_at_ = now;
  }
  return median_;
}

std::optional<double> StragglerWatch::Median() const {
  std::vector<double> times;
  for (const auto& [id, rank] : ranks_) {
    if (rank.own_micros) times.push_back(*rank.own_micros);
  }
  if (times.size() < 2) return std::nullopt;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace ringmaster::launcher
