#include "worker/trainer/telemetry/audit_log.h"

#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/unit/trainer/temporary_folder.h"

namespace ringmaster::trainer {
namespace {

using Json = nlohmann::json;

World SecondOfTwo() {
  World world;
  world.epoch = {.term = 2, .number = 7};
  world.rank = 1;
  world.size = 2;
  world.members = {"digits-worker-0/0/aa", "digits-worker-1/3/b\"b"};
  return world;
}

std::vector<Json> Lines(const std::string& file) {
  std::vector<Json> lines;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line));
  return lines;
}

TEST(AuditLog, WritesAWorldAndItsStepsIntoAFileOfItsMembersName) {
  const TemporaryFolder folder;
  auto log = AuditLog::Open(folder.path() + "/new/folder");
  ASSERT_TRUE(log.ok());
  const World world = SecondOfTwo();

  log->Entered(
      world, 64,
      {.held = {.version = {.epoch = {.term = 1, .number = 9}, .step = 40}}, .checksum = 255});
  log->Begun(world, 41, {.begin = 32, .end = 64});
  log->Applied(world, 41, {.begin = 32, .end = 64}, 256);

  const auto lines = Lines(folder.path() + "/new/folder/digits-worker-1-3-b\"b.jsonl");
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0], Json::parse(R"({"world":{"term":2,"number":7,"rank":1,"size":2,
    "global_batch":64,"members":["digits-worker-0/0/aa","digits-worker-1/3/b\"b"],
    "adopted":{"epoch":[1,9],"step":40},"checksum":"00000000000000ff"}})"));
  EXPECT_EQ(lines[1],
            Json::parse(R"({"begun":{"step":41,"epoch":[2,7],"rank":1,"samples":[32,64]}})"));
  EXPECT_EQ(lines[2], Json::parse(R"({"step":41,"epoch":[2,7],"rank":1,"samples":[32,64],
    "checksum":"0000000000000100"})"));
}

TEST(AuditLog, DeclaresWhatBecameOfResiduals) {
  const TemporaryFolder folder;
  auto log = AuditLog::Open(folder.path());
  ASSERT_TRUE(log.ok());

  log->Entered(SecondOfTwo(), 64, {}, "dropped");

  const auto lines = Lines(folder.path() + "/digits-worker-1-3-b\"b.jsonl");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0]["world"]["residuals"], "dropped");
}

TEST(AuditLog, WritesIntoTheFileNamed) {
  const TemporaryFolder folder;
  auto log = AuditLog::Open(folder.path() + "/mine.jsonl");
  ASSERT_TRUE(log.ok());

  log->Entered(SecondOfTwo(), 64, {});

  EXPECT_EQ(Lines(folder.path() + "/mine.jsonl").size(), 1U);
}

TEST(AuditLog, NoPathIsNoLog) {
  auto log = AuditLog::Open("");

  ASSERT_TRUE(log.ok());
  EXPECT_FALSE(log->on());
  log->Entered(World{}, 64, {});
}

TEST(AuditLog, RefusesAFolderItCannotMake) {
  const auto log = AuditLog::Open("/proc/none/of/ours");

  ASSERT_FALSE(log.ok());
  EXPECT_EQ(log.error().kind, ErrorKind::kInvalid);
}

TEST(AuditLog, AFileThatCannotBeWrittenEndsTheLogAndNothingElse) {
  auto log = AuditLog::Open("/proc/none.jsonl");
  ASSERT_TRUE(log.ok());

  log->Entered(SecondOfTwo(), 64, {});

  EXPECT_FALSE(log->on());
}

}  // namespace
}  // namespace ringmaster::trainer
