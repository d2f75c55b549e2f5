#include "worker/trainer/world_sources/static/membership_schedule.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/json/fields.h"
#include "common/json/forms.h"
#include "worker/trainer/data/file_bytes.h"

namespace ringmaster::trainer {

void Describe(auto& a, Is<ScheduledRun> auto& v) {
  a.Field("steps", v, AsPair<ScheduledRun>{&ScheduledRun::first, &ScheduledRun::last});
  a.Field("epoch", v.epoch, AsPair<control::Epoch>{&control::Epoch::term, &control::Epoch::number});
  a.Field("members", v.members);
  a.Optional("full_size", v.full_size);
}

namespace {

bool ShareAMember(const ScheduledRun& run, const ScheduledRun& before) {
  const std::set<std::string> those(before.members.begin(), before.members.end());
  return std::any_of(run.members.begin(), run.members.end(),
                     [&](const std::string& member) { return those.contains(member); });
}

// Returns what is wrong with `run`, which follows `before`; null if nothing is wrong.
const char* Judge(const ScheduledRun& run, const ScheduledRun* before) {
  if (run.first != (before == nullptr ? 1 : before->last + 1)) {
    return "its steps do not continue those before it, or do not start with step 1";
  }
  if (run.last < run.first) return "its last step is before its first step";
  if (!((before == nullptr ? control::Epoch{} : before->epoch) < run.epoch)) {
    return "its epoch is not above the one before it";
  }
  if (run.members.empty()) return "it has no members";
  if (run.full_size < 0) return "its full_size is below 0";
  if (run.members.size() > MembershipSchedule::kMostRanks) return "it has too many members";
  const std::set<std::string> distinct(run.members.begin(), run.members.end());
  if (distinct.size() < run.members.size()) return "it names a member twice";
  if (before != nullptr && !ShareAMember(run, *before)) {
    return "none of its members computed the steps before it, so no member has the state to "
           "continue from; such a run cannot be replayed";
  }
  return nullptr;
}

}  // namespace

Result<MembershipSchedule> ParseMembershipSchedule(std::string_view text, const std::string& file) {
  const auto invalid = [&](const std::string& where, const std::string& what) {
    return Error{ErrorKind::kInvalid, "the membership schedule " + file + where + ": " + what};
  };
  if (text.size() > MembershipSchedule::kMostBytes) return invalid("", "it is too large");
  MembershipSchedule schedule;
  std::set<std::string> known;
  for (int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string where = ":" + std::to_string(number);
    Result<ScheduledRun> run = DecodeJson<ScheduledRun>(text.substr(0, end));
    if (!run.ok()) return invalid(where, run.error().message);
    const ScheduledRun* before = schedule.runs.empty() ? nullptr : &schedule.runs.back();
    if (const char* wrong = Judge(*run, before)) return invalid(where, wrong);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    for (const std::string& member : run->members) {
      if (known.insert(member).second) schedule.members.push_back(member);
    }
    schedule.runs.push_back(*std::move(run));
  }
  if (schedule.runs.empty()) return invalid("", "it is empty: no step was committed");
  return schedule;
}

Result<MembershipSchedule> ReadMembershipSchedule(const std::string& file) {
  const Result<std::string> text = ReadMaybeGzip(file, MembershipSchedule::kMostBytes);
  if (!text.ok()) {
    Error error = text.error().WithContext("reading the membership schedule");
    error.kind = ErrorKind::kInvalid;  // a user error, even if the file does not exist
    return error;
  }
  return ParseMembershipSchedule(*text, file);
}

}  // namespace ringmaster::trainer
