#include "worker/audit/read_logs.h"

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/unit/trainer/temporary_folder.h"
#include "worker/audit/report.h"

namespace ringmaster::audit {
namespace {

using ::testing::HasSubstr;
using trainer::TemporaryFolder;

constexpr char kWorld[] =
    R"({"world":{"term":1,"number":1,"rank":0,"size":1,"full_size":3,"global_batch":8,"members":["a/0/x"],)"
    R"("adopted":{"epoch":[0,0],"step":0},"checksum":"0000000000000001"}})";
constexpr char kBegun[] = R"({"begun":{"step":1,"epoch":[1,1],"rank":0,"samples":[0,8]}})";
constexpr char kApplied[] =
    R"({"step":1,"epoch":[1,1],"rank":0,"samples":[0,8],"checksum":"0000000000000002"})";

std::string Lines(std::initializer_list<const char*> lines) {
  std::string text;
  for (const char* line : lines) text += std::string(line) + "\n";
  return text;
}

TEST(ReadLogs, FindsLogsInFoldersAndNamesWhatIsMissing) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() + "/pod/slot");
  folder.Write("b.jsonl", "");
  folder.Write("pod/slot/a.jsonl", "");
  folder.Write("pod/notes.txt", "");

  const auto found = FindLogs({folder.path(), folder.path() + "/b.jsonl"});
  const auto missing = FindLogs({folder.path() + "/none"});
  const auto empty = FindLogs({});

  ASSERT_TRUE(found.ok());
  EXPECT_THAT(*found, ::testing::ElementsAre(HasSubstr("b.jsonl"), HasSubstr("slot/a.jsonl")));
  EXPECT_THAT(missing.error().message, HasSubstr("/none"));
  EXPECT_FALSE(empty.ok());
}

TEST(ReadLogs, ReadsALogAndReports) {
  const TemporaryFolder folder;
  const std::string file = folder.Write("a.jsonl", Lines({kWorld, kBegun, kApplied}));
  Audit audit;

  ASSERT_TRUE(ReadLog(file, audit).ok());

  const Report report = audit.Conclude(1);
  const auto summary = nlohmann::json::parse(SummaryLine(report));
  EXPECT_EQ(summary.at("steps").get<int>(), 1);
  EXPECT_EQ(summary.at("worlds").get<int>(), 1);
  EXPECT_TRUE(summary.at("ok").get<bool>());
  const auto schedule = nlohmann::json::parse(ScheduleText(report));
  EXPECT_EQ(schedule.at("steps"), nlohmann::json::array({1, 1}));
  EXPECT_EQ(schedule.at("full_size"), 3);
  EXPECT_EQ(schedule.at("members"), nlohmann::json::array({"a/0/x"}));
}

TEST(ReadLogs, ATruncatedLastLineMakesTheResultUnknown) {
  const TemporaryFolder folder;
  const std::string whole = Lines({kWorld, kBegun, kApplied});
  Audit audit;

  ASSERT_TRUE(ReadLog(folder.Write("a.jsonl", whole.substr(0, whole.size() - 9)), audit).ok());

  const Report report = audit.Conclude(1);
  EXPECT_EQ(report.steps, 0);
  EXPECT_EQ(ExitCodeOf(report.findings), kExitUnknown);
}

TEST(ReadLogs, NamesFileAndLineOfAnInvalidLine) {
  const TemporaryFolder folder;
  struct Case {
    std::string text;
    const char* says;
  };
  const Case cases[] = {
      {Lines({kWorld, "garbage", kApplied}), "a.jsonl:2: the text is not JSON"},
      {Lines({kWorld, ""}), "a.jsonl:2: the text is not JSON"},
      {Lines({kWorld}) + std::string(kMaxLineBytes + 10, 'x') + "\n", "a.jsonl:2: the line is too"},
      {Lines({kBegun}), "a.jsonl:1: a step before any world"},
      {Lines({kWorld, kApplied}), "a.jsonl:2: rank 0 of epoch 1.1 applied step 1 without"},
      {Lines({kWorld, kWorld}), "a.jsonl:2: the log returns to epoch 1.1"},
  };

  for (const Case& c : cases) {
    Audit audit;
    const auto read = ReadLog(folder.Write("a.jsonl", c.text), audit);

    ASSERT_FALSE(read.ok()) << c.says;
    EXPECT_EQ(read.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(read.error().message, HasSubstr(c.says));
  }
}

TEST(ReadLogs, RefusesTwoLogsOfOneMember) {
  const TemporaryFolder folder;
  Audit audit;
  ASSERT_TRUE(ReadLog(folder.Write("a.jsonl", Lines({kWorld})), audit).ok());

  const auto again = ReadLog(folder.Write("b.jsonl", Lines({kWorld})), audit);

  ASSERT_FALSE(again.ok());
  EXPECT_THAT(again.error().message, HasSubstr("already has another log"));
}

}  // namespace
}  // namespace ringmaster::audit
