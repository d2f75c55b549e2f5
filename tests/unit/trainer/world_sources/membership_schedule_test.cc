#include "worker/trainer/world_sources/static/membership_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/trainer/temporary_folder.h"

namespace ringmaster::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFirst[] = R"({"steps":[1,4],"epoch":[1,1],"members":["a/0/x","b/0/y"]})";
constexpr char kSecond[] =
    R"({"steps":[5,9],"epoch":[1,3],"members":["c/0/z","b/0/y"],"full_size":4})";

TEST(MembershipSchedule, ReadsRunsAndNumbersMembersByTheirFirstSteps) {
  const auto schedule =
      ParseMembershipSchedule(std::string(kFirst) + "\n" + kSecond + "\n", "schedule");

  ASSERT_TRUE(schedule.ok()) << schedule.error().message;
  ASSERT_EQ(schedule->runs.size(), 2U);
  EXPECT_EQ(schedule->runs[1].first, 5);
  EXPECT_EQ(schedule->runs[1].last, 9);
  EXPECT_EQ(schedule->runs[0].full_size, 0);
  EXPECT_EQ(schedule->runs[1].full_size, 4);
  EXPECT_EQ(schedule->runs[1].epoch, (control::Epoch{.term = 1, .number = 3}));
  EXPECT_THAT(schedule->runs[1].members, ElementsAre("c/0/z", "b/0/y"));
  EXPECT_THAT(schedule->members, ElementsAre("a/0/x", "b/0/y", "c/0/z"));
  EXPECT_EQ(schedule->steps(), 9);
}

TEST(MembershipSchedule, ARunMayBeOfOneStepAndOfAsManyRanksAsAJobMayHave) {
  for (const bool one_too_many : {false, true}) {
    std::string members;
    for (std::size_t i = 0; i < MembershipSchedule::kMostRanks + (one_too_many ? 1 : 0); ++i) {
      members += (members.empty() ? "\"" : ",\"") + std::to_string(i) + "\"";
    }
    const auto schedule = ParseMembershipSchedule(
        R"({"steps":[1,1],"epoch":[1,1],"members":[)" + members + "]}", "f");

    EXPECT_EQ(schedule.ok(), !one_too_many);
  }
}

TEST(MembershipSchedule, RefusesAFileThatIsTooLarge) {
  const auto schedule =
      ParseMembershipSchedule(std::string(MembershipSchedule::kMostBytes + 1, '\n'), "f");

  ASSERT_FALSE(schedule.ok());
  EXPECT_THAT(schedule.error().message, HasSubstr("too large"));
}

TEST(MembershipSchedule, RefusesWhatCannotBeReplayedWithFileAndLine) {
  struct Case {
    const char* second;
    const char* says;
  };
  const std::vector<Case> cases = {
      {"{\"steps\":[5,9]", "not JSON"},
      {"", "not JSON"},
      {"[]", "not a JSON object"},
      {R"({"epoch":[1,2],"members":["a/0/x"]})", "'steps': is missing"},
      {R"({"steps":[5,9.5],"epoch":[1,2],"members":["a/0/x"]})",
       "'steps': is not an integer from 0 to "},
      {R"({"steps":[5,-9],"epoch":[1,2],"members":["a/0/x"]})",
       "'steps': is not an integer from 0 to "},
      {R"({"steps":[5,18446744073709551615],"epoch":[1,2],"members":["a/0/x"]})", "'steps'"},
      {R"({"steps":[5,9],"epoch":[1],"members":["a/0/x"]})", "'epoch': is not a pair"},
      {R"({"steps":[6,9],"epoch":[1,2],"members":["a/0/x"]})", "do not continue"},
      {R"({"steps":[5,4],"epoch":[1,2],"members":["a/0/x"]})", "is before its first step"},
      {R"({"steps":[5,9],"epoch":[1,1],"members":["a/0/x"]})", "not above the one before"},
      {R"({"steps":[5,9],"epoch":[1,2],"members":[]})", "no members"},
      {R"({"steps":[5,9],"epoch":[1,2],"members":["a/0/x",7]})", "'members[1]': expected text"},
      {R"({"steps":[5,9],"epoch":[1,2],"members":["a/0/x","a/0/x"]})", "names a member twice"},
      {R"({"steps":[5,9],"epoch":[1,2],"members":["c/0/z"]})", "no member has the state"},
  };

  for (const Case& c : cases) {
    const auto schedule =
        ParseMembershipSchedule(std::string(kFirst) + "\n" + c.second + "\n", "the-file");

    ASSERT_FALSE(schedule.ok()) << c.second;
    EXPECT_EQ(schedule.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(schedule.error().message, HasSubstr("the-file:2"));
    EXPECT_THAT(schedule.error().message, HasSubstr(c.says));
  }
}

TEST(MembershipSchedule, RefusesAFileWithoutAStep) {
  const TemporaryFolder folder;

  const auto empty = ReadMembershipSchedule(folder.Write("empty", ""));
  const auto missing = ReadMembershipSchedule(folder.path() + "/missing");

  ASSERT_FALSE(empty.ok());
  EXPECT_THAT(empty.error().message, HasSubstr("no step"));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(missing.error().message, HasSubstr("/missing"));
}

}  // namespace
}  // namespace ringmaster::trainer
