#include "worker/audit/audit.h"

#include <algorithm>
#include <utility>

#include "worker/audit/conclusion.h"

namespace ringmaster::audit {
namespace {

Error Invalid(std::string what) { return {ErrorKind::kInvalid, std::move(what)}; }

// Returns whether two ranks entered the same world with the same state.
bool SameWorld(const WorldLine& a, const WorldLine& b) {
  return a.global_batch == b.global_batch && a.members == b.members &&
         a.adopted_epoch == b.adopted_epoch && a.adopted_step == b.adopted_step &&
         a.adopted_from == b.adopted_from && a.checksum == b.checksum && a.sharded == b.sharded;
}

}  // namespace

Audit::LogId Audit::NewLog(const std::string& name) {
  logs_.push_back({.name = name, .member = {}, .epoch = {}});
  return logs_.size() - 1;
}

Result<void> Audit::Add(LogId id, const AuditLine& line) {
  Log& log = logs_[id];
  if (const auto* world = std::get_if<WorldLine>(&line)) return AddWorld(log, *world);
  return AddStep(log, std::get<StepLine>(line));
}

void Audit::Torn(LogId id) {
  Note(found_, &Findings::unknown, "the last line of " + logs_[id].name + " is cut off");
}

Result<void> Audit::AddWorld(Log& log, const WorldLine& line) {
  const std::string& member = line.members[static_cast<std::size_t>(line.rank)];
  if (log.member.empty()) {
    if (!reach_.emplace(member, Reach{}).second) {
      return Invalid("member " + member + " already has another log");
    }
    log.member = member;
  }
  if (log.member != member) {
    return Invalid("this is the log of member " + log.member + ", not of " + member);
  }
  if (!(log.epoch < line.epoch)) return Invalid("the log returns to epoch " + Text(line.epoch));
  log.epoch = line.epoch;
  log.rank = line.rank;
  reach_[member] = {.epoch = line.epoch, .step = 0};
  const auto [world, isnew] =
      worlds_.try_emplace(line.epoch, WorldRecord{.line = line, .steps = {}});
  if (!isnew && !SameWorld(world->second.line, line)) {
    Note(found_, &Findings::disagreeing,
         "rank " + std::to_string(line.rank) + " entered epoch " + Text(line.epoch) +
             " with other members or another state than rank " +
             std::to_string(world->second.line.rank));
  }
  return {};
}

Result<void> Audit::AddStep(const Log& log, const StepLine& line) {
  if (log.member.empty()) return Invalid("a step before any world");
  if (line.epoch != log.epoch || line.rank != log.rank) {
    return Invalid("a step of epoch " + Text(line.epoch) + " and rank " +
                   std::to_string(line.rank) + ", but the log is in epoch " + Text(log.epoch) +
                   " as rank " + std::to_string(log.rank));
  }
  WorldRecord& world = worlds_.at(line.epoch);
  if (line.rank >= static_cast<int>(world.line.members.size()))
    return Invalid("the rank does not exist");
  if (line.samples.end > world.line.global_batch)
    return Invalid("samples are outside of the batch");
  const std::string what = "rank " + std::to_string(line.rank) + " of epoch " + Text(line.epoch) +
                           (line.checksum ? " applied" : " began") + " step " +
                           std::to_string(line.step);
  RankSteps& ranks = world.steps[line.step];
  const auto [own, isnew] =
      ranks.try_emplace(line.rank, RankStep{.samples = line.samples, .applied = {}, .part = {}});
  if (isnew && line.checksum) return Invalid(what + " without having started it");
  const bool twice = line.checksum ? own->second.applied.has_value() : !isnew;
  if (twice) Note(found_, &Findings::repeated, what + " twice");
  if (own->second.samples != line.samples) {
    Note(found_, &Findings::disagreeing, what + " with samples other than those it started with");
  }
  if (line.checksum) own->second.applied = line.checksum;
  if (line.part) own->second.part = line.part;
  Reach& reach = reach_.at(log.member);
  reach.step = std::max(reach.step, line.step);
  return {};
}

Report Audit::Conclude(std::optional<int64_t> expected_steps) const {
  return Conclusion(*this).Draw(expected_steps);
}

}  // namespace ringmaster::audit
