#include "worker/audit/conclusion.h"

#include <algorithm>

#include "common/base/count_text.h"

namespace ringmaster::audit {
namespace {

constexpr int64_t kMostInherited = int64_t{1} << 26;  // maximum number of steps; each needs memory

}  // namespace

void Note(Findings& findings, int64_t Findings::*kind, const std::string& sentence, int64_t count) {
  findings.*kind += count;
  if (findings.sentences.size() < Findings::kMostSentences) {
    findings.sentences.push_back(sentence);
  }
}

std::string Text(Epoch epoch) {
  return std::to_string(epoch.term) + "." + std::to_string(epoch.number);
}

Conclusion::Conclusion(const Audit& audit) : audit_(audit), findings_(audit.found_) {}

Report Conclusion::Draw(std::optional<int64_t> expected_steps) {
  for (const auto& [epoch, world] : audit_.worlds_) {
    if (!Adopt(world)) break;
    Follow(epoch, world);
  }
  CheckEnd(expected_steps);
  lineage_.resize(static_cast<std::size_t>(committed_));
  states_ = {initial_};
  for (std::size_t i = 0; i < lineage_.size(); ++i) {
    CheckStep(static_cast<int64_t>(i) + 1, lineage_[i]);
  }
  Report report{.steps = committed_,
                .worlds = static_cast<int64_t>(audit_.worlds_.size()),
                .findings = std::move(findings_),
                .schedule = Schedule(),
                .states = std::move(states_)};
  return report;
}

bool Conclusion::Adopt(const Audit::WorldRecord& world) {
  const int64_t step = world.line.adopted_step;
  if (lineage_.empty() && step > 0 && step <= kMostInherited &&
      world.line.adopted_epoch.term == 0 && world.line.adopted_from == "checkpoint") {
    AdoptAnotherRuns(world);
    return true;
  }
  const std::string name = "epoch " + Text(world.line.epoch) + " adopted step " +
                           std::to_string(step) + " of epoch " + Text(world.line.adopted_epoch);
  const auto known = static_cast<int64_t>(lineage_.size());
  if (step > known) {
    Note(findings_, &Findings::unknown,
         name + ", but the logs show only " + CountText(known, "step") + " before it",
         step - known);
    return false;
  }
  if (step < committed_) {
    const bool declared = !world.line.adopted_from.empty();
    Note(findings_, declared ? &Findings::rolled_back : &Findings::lost,
         name +
             (declared ? ", from the latest " + world.line.adopted_from + " that was kept," : "") +
             " when " + CountText(committed_, "step", "was", "were") + " committed",
         committed_ - step);
  }
  const Epoch had = step == 0 ? Epoch{} : lineage_[static_cast<std::size_t>(step) - 1];
  if (had != world.line.adopted_epoch) {
    Note(findings_, &Findings::disagreeing, name + ", which epoch " + Text(had) + " had computed");
  }
  lineage_.resize(static_cast<std::size_t>(step));
  committed_ = step;
  CheckAdopted(world);
  CheckSharded(world);
  return true;
}

// Adopts the state of another run, which computed the first steps; this run's logs begin later.
void Conclusion::AdoptAnotherRuns(const Audit::WorldRecord& world) {
  inherited_ = committed_ = world.line.adopted_step;
  inherited_checksum_ = world.line.checksum;
  lineage_.assign(static_cast<std::size_t>(inherited_), world.line.adopted_epoch);
}

bool Conclusion::OfAnotherRun(int64_t step) const { return step <= inherited_; }

// Checks that the adopted state is the state that its epoch logged.
void Conclusion::CheckAdopted(const Audit::WorldRecord& world) {
  const int64_t step = world.line.adopted_step;
  const std::string name = "the state that epoch " + Text(world.line.epoch) +
                           " started from, after step " + std::to_string(step);
  std::optional<uint64_t> logged;
  if (step == 0) {
    if (!initial_) initial_ = world.line.checksum;
    logged = initial_;
  } else if (OfAnotherRun(step)) {
    if (step == inherited_) logged = inherited_checksum_;
  } else if (const auto source = audit_.worlds_.find(lineage_.back());
             source != audit_.worlds_.end()) {
    const auto ranks = source->second.steps.find(step);
    if (ranks != source->second.steps.end()) {
      for (const auto& [rank, own] : ranks->second) {
        if (own.applied) logged = own.applied;
      }
    }
  }
  if (!logged) {
    Note(findings_, &Findings::unknown, name + ", is missing from all logs");
  } else if (*logged != world.line.checksum) {
    Note(findings_, &Findings::disagreeing,
         name + ", differs from the state that was logged there");
  }
}

std::optional<uint64_t> Conclusion::SumOfParts(const Audit::WorldRecord& world,
                                               const Audit::RankSteps& ranks) {
  uint64_t sum = 0;
  for (std::size_t rank = 0; rank < world.line.members.size(); ++rank) {
    const auto own = ranks.find(static_cast<int>(rank));
    if (own == ranks.end() || !own->second.part) return std::nullopt;
    sum += *own->second.part;
  }
  return sum;
}

// Checks that the shards that the step's world logged add up to the adopted sharded state; the new
// world may shard it differently. Checks nothing if one of the logs ends earlier.
void Conclusion::CheckSharded(const Audit::WorldRecord& world) {
  const int64_t step = world.line.adopted_step;
  if (!world.line.sharded || step == 0 || OfAnotherRun(step)) return;
  const auto source = audit_.worlds_.find(lineage_.back());
  if (source == audit_.worlds_.end()) return;
  const auto ranks = source->second.steps.find(step);
  if (ranks == source->second.steps.end()) return;
  const std::optional<uint64_t> whole = SumOfParts(source->second, ranks->second);
  if (!whole || *whole == *world.line.sharded) return;
  Note(findings_, &Findings::disagreeing,
       "the sharded state that epoch " + Text(world.line.epoch) + " started from, after step " +
           std::to_string(step) + ", differs from the shards that were logged there");
}

// Extends the lineage by the steps that this world applied.
void Conclusion::Follow(Epoch epoch, const Audit::WorldRecord& world) {
  for (const auto& [step, ranks] : world.steps) {
    const auto applied = std::count_if(ranks.begin(), ranks.end(), [](const auto& rank) {
      return rank.second.applied.has_value();
    });
    if (applied == 0) continue;
    const auto next = static_cast<int64_t>(lineage_.size()) + 1;
    const std::string name = "epoch " + Text(epoch) + " applied step " + std::to_string(step);
    if (step < next) {
      Note(findings_, &Findings::repeated, name + " after step " + std::to_string(next - 1));
      continue;
    }
    if (step > next) {
      Note(findings_, &Findings::lost, name + " but no log has step " + std::to_string(next),
           step - next);
      return;
    }
    committed_ = next - 1;
    lineage_.push_back(epoch);
    if (applied == static_cast<std::ptrdiff_t>(world.line.members.size())) committed_ = next;
  }
}

void Conclusion::CheckStep(int64_t step, Epoch epoch) {
  if (OfAnotherRun(step)) return;
  const Audit::WorldRecord& world = audit_.worlds_.at(epoch);
  const Audit::RankSteps& ranks = world.steps.at(step);
  const std::string name = "step " + std::to_string(step) + " of epoch " + Text(epoch);
  CheckSamples(name, world, ranks, step);
  std::optional<uint64_t> first;
  const auto following = world.steps.find(step + 1);
  for (const auto& [rank, own] : ranks) {
    const std::string who = "rank " + std::to_string(rank);
    if (own.applied && !first) first = own.applied;
    if (own.applied && *first != *own.applied) {
      Note(findings_, &Findings::disagreeing, who + " has other parameters after " + name);
    }
    const bool went_on = following != world.steps.end() && following->second.contains(rank);
    if (!own.applied && went_on) {
      Note(findings_, &Findings::lost, who + " continued without having applied " + name);
    }
  }
  if (first && world.line.sharded) {
    const std::optional<uint64_t> shares = SumOfParts(world, ranks);
    first = shares ? std::optional(*first ^ *shares) : std::nullopt;
  }
  states_.push_back(first);
}

// Checks that the samples of the ranks cover the whole batch, each sample once.
void Conclusion::CheckSamples(const std::string& name, const Audit::WorldRecord& world,
                              const Audit::RankSteps& ranks, int64_t step) {
  std::vector<Samples> used;
  bool complete = true;
  for (std::size_t i = 0; i < world.line.members.size(); ++i) {
    if (const auto own = ranks.find(static_cast<int>(i)); own != ranks.end()) {
      used.push_back(own->second.samples);
      continue;
    }
    complete = false;
    const std::string& member = world.line.members[i];
    const auto reach = audit_.reach_.find(member);
    const bool skipped = reach != audit_.reach_.end() &&
                         (world.line.epoch < reach->second.epoch ||
                          (world.line.epoch == reach->second.epoch && step < reach->second.step));
    Note(findings_, skipped ? &Findings::lost : &Findings::unknown,
         (skipped ? "the log of " + member + " skips " : "no log shows " + member + " in ") + name);
  }
  std::sort(used.begin(), used.end());
  int64_t end = 0;
  for (const Samples& samples : used) {
    if (samples.begin == samples.end) continue;
    if (samples.begin < end) {
      Note(findings_, &Findings::repeated,
           name + " used sample " + std::to_string(samples.begin) + " of its batch twice");
    } else if (samples.begin > end && complete) {
      Note(findings_, &Findings::lost,
           name + " left out samples " + std::to_string(end) + " to " +
               std::to_string(samples.begin - 1) + " of its batch");
    }
    end = std::max(end, samples.end);
  }
  if (complete && end < world.line.global_batch) {
    Note(findings_, &Findings::lost,
         name + " left out samples " + std::to_string(end) + " to " +
             std::to_string(world.line.global_batch - 1) + " of its batch");
  }
}

void Conclusion::CheckEnd(std::optional<int64_t> expected_steps) {
  const auto applied = static_cast<int64_t>(lineage_.size());
  if (applied > committed_) {
    Note(findings_, &Findings::unknown,
         "step " + std::to_string(applied) +
             " was applied by some ranks, and the logs end before the others");
  }
  if (!expected_steps || *expected_steps == committed_) return;
  const std::string name = CountText(committed_, "step", "is", "are") + " committed of " +
                           std::to_string(*expected_steps) + " expected";
  if (committed_ > *expected_steps) {
    Note(findings_, &Findings::disagreeing, name);
  } else {
    Note(findings_, &Findings::unknown, name, *expected_steps - committed_);
  }
}

std::vector<Segment> Conclusion::Schedule() const {
  std::vector<Segment> schedule;
  for (std::size_t i = 0; i < lineage_.size(); ++i) {
    const auto step = static_cast<int64_t>(i) + 1;
    if (OfAnotherRun(step)) continue;
    if (schedule.empty() || schedule.back().epoch != lineage_[i]) {
      const WorldLine& world = audit_.worlds_.at(lineage_[i]).line;
      schedule.push_back({.first = step,
                          .last = step,
                          .epoch = lineage_[i],
                          .members = world.members,
                          .full_size = world.full_size});
    }
    schedule.back().last = step;
  }
  return schedule;
}

}  // namespace ringmaster::audit
