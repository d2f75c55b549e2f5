#include "worker/trainer/world_sources/static/membership_schedule.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "worker/trainer/data/file_bytes.h"

namespace ringmaster::trainer {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMostSteps = int64_t{1} << 53;  // what JSON numbers hold exactly

struct NumberPair {
  int64_t first = 0;
  int64_t second = 0;
};

std::optional<NumberPair> PairOf(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_array() || found->size() != 2) return {};
  const auto number = [](const Json& value) {
    const bool fits =
        value.is_number_unsigned() && value.get<uint64_t>() <= static_cast<uint64_t>(kMostSteps);
    return fits ? value.get<int64_t>() : -1;
  };
  const NumberPair pair{number((*found)[0]), number((*found)[1])};
  if (pair.first < 0 || pair.second < 0) return {};
  return pair;
}

// Reads "members" into `run`; what is wrong with them, or nothing.
const char* TakeMembers(const Json& json, ScheduledRun& run) {
  const auto found = json.find("members");
  if (found == json.end() || !found->is_array() || found->empty()) {
    return "\"members\" is no list of members";
  }
  if (found->size() > MembershipSchedule::kMostRanks) return "there are too many members";
  std::set<std::string> seen;
  for (const Json& member : *found) {
    if (!member.is_string()) return "\"members\" is no list of members";
    run.members.push_back(member.get<std::string>());
    if (!seen.insert(run.members.back()).second) return "a member is named twice";
  }
  return nullptr;
}

bool ShareAMember(const ScheduledRun& run, const ScheduledRun& before) {
  const std::set<std::string> those(before.members.begin(), before.members.end());
  return std::any_of(run.members.begin(), run.members.end(),
                     [&](const std::string& member) { return those.contains(member); });
}

// Reads one line into `run`; what is wrong with it, or nothing.
const char* TakeRun(std::string_view line, const ScheduledRun* before, ScheduledRun& run) {
  const Json json = Json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return "the line is no JSON object";
  const auto steps = PairOf(json, "steps");
  const auto epoch = PairOf(json, "epoch");
  if (!steps) return "\"steps\" is no pair of numbers";
  if (!epoch) return "\"epoch\" is no pair of numbers";
  run.first = steps->first;
  run.last = steps->second;
  run.epoch = {.term = epoch->first, .number = epoch->second};
  if (run.first != (before == nullptr ? 1 : before->last + 1)) {
    return "its steps do not follow those before it, or do not begin with step 1";
  }
  if (run.last < run.first) return "its steps end before they begin";
  if (!((before == nullptr ? control::Epoch{} : before->epoch) < run.epoch)) {
    return "its epoch is not above the one before it";
  }
  if (const char* wrong = TakeMembers(json, run)) return wrong;
  if (before != nullptr && !ShareAMember(run, *before)) {
    return "none of its members computed the steps before it, so nobody has the state to go on "
           "from: such a run cannot be replayed";
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
    ScheduledRun run;
    const ScheduledRun* before = schedule.runs.empty() ? nullptr : &schedule.runs.back();
    const char* wrong = TakeRun(text.substr(0, end), before, run);
    if (wrong != nullptr) return invalid(":" + std::to_string(number), wrong);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    for (const std::string& member : run.members) {
      if (known.insert(member).second) schedule.members.push_back(member);
    }
    schedule.runs.push_back(std::move(run));
  }
  if (schedule.runs.empty()) return invalid("", "it is empty: no step was committed");
  return schedule;
}

Result<MembershipSchedule> ReadMembershipSchedule(const std::string& file) {
  const Result<std::string> text = ReadMaybeGzip(file, MembershipSchedule::kMostBytes);
  if (!text.ok()) {
    Error error = text.error().WithContext("reading the membership schedule");
    error.kind = ErrorKind::kInvalid;  // a user's mistake, also where there is no such file
    return error;
  }
  return ParseMembershipSchedule(*text, file);
}

}  // namespace ringmaster::trainer
