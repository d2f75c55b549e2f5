// Checkpoint files and their folder: what was written comes back bit for bit; whatever is wrong
// with a file is said by name and never taken for a state.

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <map>
#include <stop_token>
#include <string>
#include <sys/mount.h>
#include <vector>

#include "common/base/log.h"
#include "tests/unit/trainer/temporary_folder.h"
#include "worker/trainer/checkpoint/checkpoint_folder.h"

namespace ringmaster::trainer {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Parameters and velocity that tell their version.
struct TestState {
  explicit TestState(float value = 0, std::size_t size = 1000)
      : parameters(size), velocity(size / 2) {
    std::iota(parameters.begin(), parameters.end(), value);
    std::iota(velocity.begin(), velocity.end(), -value);
  }
  TrainableState view() { return {parameters, velocity}; }

  std::vector<float> parameters;
  std::vector<float> velocity;
};

StateIdentity Identity() {
  return {.run = "job-1",
          .model = "weight float32 [1000]\nbias float32 [10]\n",
          .seed = 7,
          .global_batch = 64};
}

StateVersion VersionAt(int64_t term, int64_t number, int64_t step) {
  return {.epoch = {.term = term, .number = number}, .step = step};
}

ShardHeader HeaderOf(const StateVersion& version, TestState& state,
                     const StateIdentity& identity = Identity()) {
  return {.identity = identity,
          .version = version,
          .term_base = 0,
          .shard = 0,
          .shards = 1,
          .parts = PartsOf(state.view()),
          .checksum = Checksum(state.view())};
}

class CheckpointTest : public ::testing::Test {
 protected:
  // Written, and complete where `done`.
  void Write(const StateVersion& version, bool done = true, float value = -1,
             const StateIdentity& identity = Identity()) {
    TestState state(value < 0 ? static_cast<float>(version.step) : value);
    const auto shard = folder_.Write(HeaderOf(version, state, identity), state.view());
    ASSERT_TRUE(shard.ok()) << shard.error().message;
    if (!done) return;
    const auto marked = folder_.MarkDone(version, {*shard});
    ASSERT_TRUE(marked.ok()) << marked.error().message;
  }

  Result<std::optional<LoadedShard>> Load(const StateVersion& than = {},
                                          const StateIdentity& identity = Identity()) {
    TestState mine;
    return folder_.LoadNewest(than, identity, PartsOf(mine.view()), damaged_);
  }
  int64_t LoadedStep(const StateVersion& than = {}) {
    const auto loaded = Load(than);
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    return loaded.ok() && loaded->has_value() ? (*loaded)->header.version.step : -1;
  }

  std::string ShardOf(const StateVersion& version) const {
    return folder_.PathOf(version) + "/shard-0";
  }
  static void Flip(const std::string& path, std::size_t at) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(at));
    const auto byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(temporary_.path())) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  TemporaryFolder temporary_;
  CheckpointFolder folder_ = *CheckpointFolder::Open(temporary_.path());
  std::map<StateVersion, std::string> damaged_;
};

TEST_F(CheckpointTest, WhatWasWrittenComesBackBitForBit) {
  Write(VersionAt(1, 2, 500));

  const auto loaded = Load();

  ASSERT_TRUE(loaded.ok() && loaded->has_value());
  const TestState expected(500);
  EXPECT_EQ((*loaded)->header.version, VersionAt(1, 2, 500));
  EXPECT_EQ((*loaded)->header.identity, Identity());
  EXPECT_EQ((*loaded)->values[0], expected.parameters);
  EXPECT_EQ((*loaded)->values[1], expected.velocity);
}

TEST_F(CheckpointTest, AnEmptyFolderHasNone) {
  const auto loaded = Load();

  ASSERT_TRUE(loaded.ok());
  EXPECT_FALSE(loaded->has_value());
}

TEST_F(CheckpointTest, TheHighestTermEpochAndStepWithDoneIsTheNewest) {
  Write(VersionAt(1, 9, 900));
  Write(VersionAt(2, 1, 700));
  Write(VersionAt(2, 2, 600));
  Write(VersionAt(2, 2, 650), /*done=*/false);
  Write(VersionAt(3, 1, 1000), /*done=*/false);

  EXPECT_EQ(LoadedStep(), 600);
  EXPECT_EQ(LoadedStep(VersionAt(2, 1, 800)), 600);
  EXPECT_EQ(LoadedStep(VersionAt(2, 2, 600)), -1);
}

TEST_F(CheckpointTest, DamageMeansThePreviousOneAndIsNamed) {
  struct Case {
    const char* what;
    std::function<void(const std::string& shard)> damage;
    const char* says;
  };
  const std::size_t header = EncodeShardHeader([] {
                               TestState state;
                               return HeaderOf(VersionAt(1, 1, 2), state);
                             }())
                                 .size();
  const Case cases[] = {
      {"a bit of the data", [&](const auto& path) { Flip(path, header + 2222); },
       "its data do not match their checksum"},
      {"the last bit", [&](const auto& path) { Flip(path, fs::file_size(path) - 1); },
       "its data do not match their checksum"},
      {"a bit of the header", [](const auto& path) { Flip(path, 100); },
       "its header does not match its checksum"},
      {"a bit of the format", [](const auto& path) { Flip(path, 8); },
       "its header does not match its checksum"},
      {"the header's length", [](const auto& path) { Flip(path, 19); },
       "its header's length is damaged"},
      {"the first byte", [](const auto& path) { Flip(path, 0); }, "does not begin as a state does"},
      {"the end", [](const auto& path) { fs::resize_file(path, fs::file_size(path) - 1); },
       "bytes instead of"},
      {"all but the start", [](const auto& path) { fs::resize_file(path, 40); }, "it is cut off"},
      {"everything", [](const auto& path) { fs::resize_file(path, 0); }, "it is cut off"},
      {"more than there was", [](const auto& path) { fs::resize_file(path, 100'000); },
       "bytes instead of"},
      {"the file", [](const auto& path) { fs::remove(path); }, "No such file"},
      {"DONE",
       [](const auto& path) {
         std::ofstream(fs::path(path).parent_path() / "DONE") << "0 12 zz\n";
       },
       "does not list"},
  };

  InitLog("test", "info", LogFormat::kText);  // to where it is captured
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    for (const auto& entry : fs::directory_iterator(temporary_.path())) fs::remove_all(entry);
    damaged_.clear();
    Write(VersionAt(1, 1, 1));
    Write(VersionAt(1, 1, 2));
    c.damage(ShardOf(VersionAt(1, 1, 2)));

    ::testing::internal::CaptureStderr();
    EXPECT_EQ(LoadedStep(), 1);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                AllOf(HasSubstr("1.1-2/"), HasSubstr(c.says), HasSubstr("1.1-1")));
  }
}

TEST_F(CheckpointTest, AllDamagedIsNoReasonToBeginFromNothing) {
  Write(VersionAt(1, 1, 1));
  Write(VersionAt(1, 1, 2));
  for (const int64_t step : {1, 2}) Flip(ShardOf(VersionAt(1, 1, step)), 3000);

  const auto loaded = Load();

  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(loaded.error().message,
              AllOf(HasSubstr("all 2 complete checkpoints"), HasSubstr("1.1-2/shard-0")));
}

TEST_F(CheckpointTest, ARankThatHasAStateDoesWithoutTheDamagedOnes) {
  Write(VersionAt(1, 1, 1));
  Write(VersionAt(1, 1, 2));
  Flip(ShardOf(VersionAt(1, 1, 2)), 3000);

  EXPECT_EQ(LoadedStep(VersionAt(1, 1, 1)), -1);
}

TEST_F(CheckpointTest, ForeignOnesAreRefusedByNameAndReason) {
  struct Case {
    std::function<void(StateIdentity&)> change;
    const char* says;
  };
  const Case cases[] = {
      {[](auto& id) { id.model = "weight float32 [1000]\nbias float32 [12]\n"; },
       "it has 'bias float32 [12]' where this one has 'bias float32 [10]'"},
      {[](auto& id) { id.model += "more float32 [1]\n"; }, "where this one has nothing"},
      {[](auto& id) { id.seed = 8; }, "with --seed=8, and this run has --seed=7"},
      {[](auto& id) { id.global_batch = 32; }, "--global-batch=32"},
  };
  Write(VersionAt(1, 1, 1));
  for (const Case& c : cases) {
    StateIdentity other = Identity();
    c.change(other);
    Write(VersionAt(1, 1, 2), true, 2, other);

    const auto loaded = Load();

    ASSERT_FALSE(loaded.ok()) << c.says;
    EXPECT_EQ(loaded.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(loaded.error().message, AllOf(HasSubstr("1.1-2/shard-0"), HasSubstr(c.says)));
    fs::remove_all(folder_.PathOf(VersionAt(1, 1, 2)));
  }
}

TEST_F(CheckpointTest, ANewerFormatIsRefusedAndNotTakenForDamage) {
  TestState state;
  std::vector<std::byte> bytes = EncodeShardHeader(HeaderOf(VersionAt(1, 1, 2), state));
  bytes[8] = std::byte{2};
  uint64_t hash = 0xcbf29ce484222325ULL;  // as every format has it
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i >= 24 && i < 32) continue;
    hash = (hash ^ static_cast<uint64_t>(bytes[i])) * 0x100000001b3ULL;
  }
  std::memcpy(bytes.data() + 24, &hash, sizeof(hash));

  const auto header = DecodeShardHeader(bytes);

  ASSERT_FALSE(header.ok());
  EXPECT_EQ(header.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(header.error().message, HasSubstr("format 2, which a newer Ringmaster wrote"));
}

TEST_F(CheckpointTest, RetentionKeepsTheNewestAndTouchesNothingNewerThanItsOwn) {
  for (const int64_t step : {1, 2, 3, 4, 5}) Write(VersionAt(1, 1, step));
  Write(VersionAt(1, 2, 6));
  Write(VersionAt(1, 1, 7), /*done=*/false);
  Write(VersionAt(1, 3, 8), /*done=*/false);
  fs::create_directory(temporary_.path() + "/.writing-1.1-3~55");
  fs::create_directory(temporary_.path() + "/.removing-1.1-1~66");
  fs::create_directory(temporary_.path() + "/.writing-2.1-9~77");
  fs::create_directory(temporary_.path() + "/the-users-own");

  folder_.Retain(VersionAt(1, 1, 4), 3);  // a ghost's: 1.2-6 is not its own
  EXPECT_THAT(Names(), ElementsAre(".writing-2.1-9~77", "1.1-4", "1.1-5", "1.1-7", "1.2-6", "1.3-8",
                                   "the-users-own"));

  folder_.Retain(VersionAt(1, 2, 6), 2);
  EXPECT_THAT(Names(),
              ElementsAre(".writing-2.1-9~77", "1.1-5", "1.2-6", "1.3-8", "the-users-own"));
}

TEST_F(CheckpointTest, WhatAWriterLeftWithoutDoneIsReplacedAndACompleteOneIsNot) {
  Write(VersionAt(1, 1, 1), /*done=*/false, 100);
  Write(VersionAt(1, 1, 1), /*done=*/true, 200);

  TestState state(300);
  const auto again = folder_.Write(HeaderOf(VersionAt(1, 1, 1), state), state.view());

  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().kind, ErrorKind::kAlreadyExists);
  const auto loaded = Load();
  ASSERT_TRUE(loaded.ok() && loaded->has_value());
  EXPECT_EQ((*loaded)->values[0][0], 200);
  EXPECT_THAT(Names(), ElementsAre("1.1-1"));
}

TEST_F(CheckpointTest, AStoppedWriterLeavesNothing) {
  std::stop_source stop;
  stop.request_stop();
  TestState state(1);

  const auto written =
      folder_.Write(HeaderOf(VersionAt(1, 1, 1), state), state.view(), stop.get_token());

  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().kind, ErrorKind::kCancelled);
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(CheckpointTest, AFullVolumeIsAnErrorThatLeavesNothing) {
  const std::string small = temporary_.path() + "/small";
  fs::create_directory(small);
  if (::mount("none", small.c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "mounting a file system needs root";
  }
  const auto folder = CheckpointFolder::Open(small);
  ASSERT_TRUE(folder.ok());
  TestState state(1, 100'000);

  const auto written = folder->Write(HeaderOf(VersionAt(1, 1, 1), state), state.view());
  const bool left = !fs::is_empty(small);
  ::umount(small.c_str());

  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(written.error().message,
              AllOf(HasSubstr("No space left on device"), HasSubstr(small)));
  EXPECT_FALSE(left);
}

TEST_F(CheckpointTest, AFolderThatCannotBeIsTheUsersError) {
  const std::string file = temporary_.Write("file", "x");

  const auto folder = CheckpointFolder::Open(file + "/below");

  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.error().kind, ErrorKind::kInvalid);
}

TEST(CheckpointName, IsReadBackAndNothingElseIs) {
  EXPECT_EQ(CheckpointName(VersionAt(3, 12, 500)), "3.12-500");
  EXPECT_EQ(ParseCheckpointName("3.12-500"), VersionAt(3, 12, 500));
  for (const char* name : {"", "3", "3.12", "3.12-", "3.12-5x", "-3.12-5", "3.12--5", "03.1-5",
                           "3.1-05", "3 .1-5", "99999999999999999999.1-5", "a.b-c", "3.12-500~1"}) {
    EXPECT_FALSE(ParseCheckpointName(name)) << name;
  }
}

TEST(Done, IsReadBackAndNothingElseIs) {
  const std::vector<DoneShard> shards = {{0, 12, 255}, {1, 34, 1}};

  const auto decoded = DecodeDone(EncodeDone(shards));

  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, shards);
  for (const char* text : {"", "0", "0 12", "0 12 00000000000000ff", "1 12 00000000000000ff\n",
                           "0 -1 00000000000000ff\n", "0 12 00000000000000zz\n",
                           "0 12 00000000000000ff\n0 12 00000000000000ff\n"}) {
    EXPECT_FALSE(DecodeDone(text).ok()) << text;
  }
}

}  // namespace
}  // namespace ringmaster::trainer
