#include "worker/trainer/comm/file_store.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/trainer/memory_store.h"
#include "tests/unit/trainer/temporary_folder.h"

namespace ringmaster::trainer {
namespace {

TEST(FileStore, GetWaitsForValuesOfOthers) {
  const TemporaryFolder folder;
  auto ours = FileStore::Open(folder.path() + "/world");
  auto theirs = FileStore::Open(folder.path() + "/world");
  ASSERT_TRUE(ours.ok() && theirs.ok());
  const std::string bytes("a\0b\n", 4);
  ASSERT_TRUE((*ours)->Set("mine", "1").ok());
  std::jthread writer([&] { EXPECT_TRUE((*theirs)->Set("rank/1", bytes).ok()); });

  const auto values = (*ours)->Get({"mine", "rank/1"}, In(std::chrono::seconds(20)));

  ASSERT_TRUE(values.ok()) << values.error().message;
  EXPECT_THAT(*values, ::testing::ElementsAre("1", bytes));
}

TEST(FileStore, GetEndsAtTheDeadline) {
  const TemporaryFolder folder;
  auto store = FileStore::Open(folder.path());
  ASSERT_TRUE(store.ok());

  const auto values = (*store)->Get({"never"}, In(std::chrono::milliseconds(20)));

  ASSERT_FALSE(values.ok());
  EXPECT_EQ(values.error().kind, ErrorKind::kTimeout);
}

TEST(FileStore, RefusesWhatCannotBeAFolder) {
  const TemporaryFolder folder;
  const std::string file = folder.Write("file", "x");

  EXPECT_FALSE(FileStore::Open(file + "/below").ok());
}

}  // namespace
}  // namespace ringmaster::trainer
