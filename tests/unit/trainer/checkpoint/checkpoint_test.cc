// Tests checkpoint files and their folder: a state is read back bit for bit, and a file with an
// error is rejected with a message that names the error.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <stop_token>
#include <string>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/log.h"
#include "tests/unit/trainer/temporary_folder.h"
#include "tests/unit/trainer/unreadable.h"
#include "worker/trainer/checkpoint/checkpoint_paths.h"

namespace ringmaster::trainer {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// A state whose parameters and velocity depend on `value`, so that states differ.
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
          .shaping = "--seed=7\n"};
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

// The largest entries that DONE may have.
std::vector<DoneShard> ManyShards(int count) {
  std::vector<DoneShard> shards;
  for (int shard = 0; shard < count; ++shard) {
    shards.push_back({.shard = shard,
                      .bytes = std::numeric_limits<int64_t>::max(),
                      .checksum = std::numeric_limits<uint64_t>::max()});
  }
  return shards;
}

class CheckpointTest : public ::testing::Test {
 protected:
  // Writes a checkpoint, and completes it if `done`.
  void Write(const StateVersion& version, bool done = true, float value = -1,
             const StateIdentity& identity = Identity()) {
    TestState state(value < 0 ? static_cast<float>(version.step) : value);
    const auto draft = folder_.Write(HeaderOf(version, state, identity), state.view());
    ASSERT_TRUE(draft.ok()) << draft.error().message;
    if (!done) return;
    const auto published = folder_.Publish(*draft);
    ASSERT_TRUE(published.ok()) << published.error().message;
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
  const CheckpointFolder folder_{temporary_.path()};
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

TEST_F(CheckpointTest, TheBytesThatTheVolumeTookAreCounted) {
  TestState state;
  std::atomic<uint64_t> taken = 0;
  const ShardHeader header = HeaderOf(VersionAt(1, 1, 10), state);

  const auto draft = folder_.Write(header, state.view(), {}, &taken);

  ASSERT_TRUE(draft.ok());
  EXPECT_EQ(taken, draft->shards.front().bytes);
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
       "its data does not match its checksum"},
      {"the last bit", [&](const auto& path) { Flip(path, fs::file_size(path) - 1); },
       "its data does not match its checksum"},
      {"a bit of the header", [](const auto& path) { Flip(path, 100); },
       "its header does not match its checksum"},
      {"a bit of the format", [](const auto& path) { Flip(path, 8); },
       "its header does not match its checksum"},
      {"the header's length", [](const auto& path) { Flip(path, 19); },
       "its header's length is damaged"},
      {"the first byte", [](const auto& path) { Flip(path, 0); },
       "does not start with a state header"},
      {"the end", [](const auto& path) { fs::resize_file(path, fs::file_size(path) - 1); },
       "bytes instead of"},
      {"all but the start", [](const auto& path) { fs::resize_file(path, 40); }, "it is truncated"},
      {"everything", [](const auto& path) { fs::resize_file(path, 0); }, "it is truncated"},
      {"more than there was", [](const auto& path) { fs::resize_file(path, 100'000); },
       "bytes instead of"},
      {"the file", [](const auto& path) { fs::remove(path); }, "No such file"},
      {"DONE",
       [](const auto& path) {
         std::ofstream(fs::path(path).parent_path() / "DONE") << "0 12 zz\n";
       },
       "does not list"},
  };

  InitLog("test", "info", LogFormat::kText);  // logs to stderr, which is captured
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
  uint64_t hash = 0xcbf29ce484222325ULL;  // every format version uses this hash
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i >= 24 && i < 32) continue;
    hash = (hash ^ static_cast<uint64_t>(bytes[i])) * 0x100000001b3ULL;
  }
  std::memcpy(bytes.data() + 24, &hash, sizeof(hash));

  const auto header = DecodeShardHeader(bytes);

  ASSERT_FALSE(header.ok());
  EXPECT_EQ(header.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(header.error().message, HasSubstr("format 2, written by a newer Ringmaster"));
}

TEST_F(CheckpointTest, RetentionKeepsTheNewestAndTouchesNothingNewerThanItsOwn) {
  for (const int64_t step : {1, 2, 3, 4, 5}) Write(VersionAt(1, 1, step));
  Write(VersionAt(1, 2, 6));
  Write(VersionAt(1, 3, 8), /*done=*/false);
  Write(VersionAt(1, 1, 7), /*done=*/false);  // by a Pod that does not know of the other
  fs::create_directory(temporary_.path() + "/.writing-1.1-3~55");
  fs::create_directory(temporary_.path() + "/.removing-1.1-1~66");
  fs::create_directory(temporary_.path() + "/.writing-2.1-9~77");
  fs::create_directory(temporary_.path() + "/the-users-own");

  fs::create_directory(temporary_.path() + "/1.1-3");  // a checkpoint whose files were removed

  folder_.Retain(VersionAt(1, 1, 4), 3);  // called by a fenced Pod, which did not write 1.2-6
  EXPECT_THAT(Names(),
              ElementsAre(StartsWith(".writing-1.1-7~"), StartsWith(".writing-1.3-8~"),
                          ".writing-2.1-9~77", "1.1-4", "1.1-5", "1.2-6", "the-users-own"));

  folder_.Retain(VersionAt(1, 2, 6), 2);
  EXPECT_THAT(Names(), ElementsAre(StartsWith(".writing-1.3-8~"), ".writing-2.1-9~77", "1.1-5",
                                   "1.2-6", "the-users-own"));
}

// Their space may be missing for the next checkpoint, so they do not stay until it is complete.
TEST_F(CheckpointTest, AWriterFirstRemovesWhatKilledWritersOfOlderVersionsLeft) {
  Write(VersionAt(1, 1, 10));
  Write(VersionAt(1, 1, 30), false);
  const std::vector<std::string> others = Names();
  Write(VersionAt(1, 1, 15), false);
  fs::create_directory(temporary_.path() + "/.removing-1.1-5~1");
  std::ofstream(temporary_.path() + "/.writing-1.1-15~of-1.1~part-0-of-2") << "rows";

  TestState state;
  const auto draft = folder_.Write(HeaderOf(VersionAt(1, 1, 20), state), state.view());

  ASSERT_TRUE(draft.ok()) << draft.error().message;
  folder_.Discard(*draft);
  EXPECT_EQ(Names(), others);
}

// The writer of a former world may be alive while rank 0 of the current one removes its draft.
TEST_F(CheckpointTest, ADraftThatIsBeingRemovedIsNeverCompleted) {
  TestState state;
  const auto draft = folder_.Write(HeaderOf(VersionAt(1, 1, 15), state), state.view());
  ASSERT_TRUE(draft.ok()) << draft.error().message;
  const std::string busy = draft->aside + "/busy";  // a mount point is not removed
  fs::create_directory(busy);
  if (::mount("none", busy.c_str(), "tmpfs", 0, "size=4k") != 0) {
    GTEST_SKIP() << "mounting a file system needs root";
  }
  Write(VersionAt(1, 1, 20));

  const Result<void> late = folder_.Publish(*draft);

  const std::vector<std::string> names = Names();
  ::umount((temporary_.path() + "/" + names.front() + "/busy").c_str());
  EXPECT_FALSE(late.ok());
  EXPECT_THAT(names, ElementsAre(StartsWith(".removing-1.1-15~"), "1.1-20"));
  folder_.Retain(VersionAt(1, 1, 20), 1);
  EXPECT_THAT(Names(), ElementsAre("1.1-20"));
}

TEST_F(CheckpointTest, OneWithMorePartsThanCanBeReadIsNotCompleted) {
  TestState state;
  auto draft = folder_.Write(HeaderOf(VersionAt(1, 1, 20), state), state.view());
  ASSERT_TRUE(draft.ok()) << draft.error().message;
  draft->shards = ManyShards(control::kMaxRanks + 2);

  const auto published = folder_.Publish(*draft);

  ASSERT_FALSE(published.ok());
  EXPECT_THAT(published.error().message, HasSubstr("use fewer ranks"));
  EXPECT_THAT(*folder_.Complete(), IsEmpty());
}

TEST(Done, ListsThePartsOfAsManyRanksAsAJobMayHave) {
  const std::vector<DoneShard> shards = ManyShards(control::kMaxRanks + 1);

  const auto read = DecodeDone(EncodeDone(shards));

  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, shards);
}

TEST_F(CheckpointTest, WhatLacksDoneIsReplacedAndACompleteOneIsNot) {
  fs::create_directory(temporary_.path() + "/1.1-1");
  std::ofstream(temporary_.path() + "/1.1-1/shard-0") << "half a copy";
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

// Rank 0 of each of two worlds writes the same state. The first writer is granted the checkpoint,
// but continues only after the second has completed the checkpoint.
TEST_F(CheckpointTest, TheLaterOfTwoWritersLeavesTheFirstOnesWhole) {
  TestState state(1);
  const StateVersion version = VersionAt(1, 1, 7);
  std::vector<float> rows(60, 3);
  const auto draft = [&](const control::Epoch& world, int ranks) {
    auto written = folder_.Write(HeaderOf(version, state), state.view());
    EXPECT_TRUE(written.ok());
    for (int rank = 0; rank < ranks; ++rank) {
      const std::span<float> share = std::span(rows).first(60U / static_cast<unsigned>(ranks));
      ShardHeader header = HeaderOf(version, state);
      header.shard = rank;
      header.shards = ranks;
      header.parts = {share.size()};
      header.checksum = Checksum(TrainableState{share});
      EXPECT_TRUE(folder_.WritePart(world, header, share).ok());
    }
    EXPECT_TRUE(folder_.AdoptParts(*written, world, ranks).ok());
    return *written;
  };
  const CheckpointDraft stalled = draft({1, 1}, 2);
  const CheckpointDraft newer = draft({1, 2}, 3);
  ASSERT_TRUE(folder_.Publish(newer).ok());

  const Result<void> late = folder_.Publish(stalled);

  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().kind, ErrorKind::kAlreadyExists);
  EXPECT_EQ(LoadedStep(), 7);
  std::vector<float> read(60);
  EXPECT_TRUE(folder_
                  .LoadRows(version, Identity(),
                            {.all_rows = 60, .row_values = 1, .begin = 0, .end = 60}, read)
                  .ok());
  folder_.Discard(stalled);
  EXPECT_THAT(Names(), ElementsAre("1.1-7"));
}

TEST_F(CheckpointTest, WhatCannotBeReadNowIsNotDamagedAndNotRemembered) {
  Write(VersionAt(1, 1, 1));
  Write(VersionAt(1, 1, 2));
  for (const char* file : {"/shard-0", "/DONE"}) {
    SCOPED_TRACE(file);
    Unreadable fault(folder_.PathOf(VersionAt(1, 1, 2)) + file);
    if (!fault.mounted()) GTEST_SKIP() << "mounting needs root";

    const auto loaded = Load();

    ASSERT_FALSE(loaded.ok()) << "it rolled back to step "
                              << (loaded->has_value() ? (*loaded)->header.version.step : 0);
    EXPECT_EQ(loaded.error().kind, ErrorKind::kUnavailable);
    EXPECT_THAT(loaded.error().message,
                AllOf(HasSubstr("Input/output error"), HasSubstr("1.1-2"), HasSubstr(file)));
    EXPECT_THAT(damaged_, IsEmpty());
    fault.Heal();
    EXPECT_EQ(LoadedStep(), 2) << "once it can be read";
  }
}

TEST_F(CheckpointTest, WithoutFilesToOpenOrRightsNothingIsDamaged) {
  Write(VersionAt(1, 1, 1));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto out_of_files = Load();
  ::setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_FALSE(out_of_files.ok());
  EXPECT_EQ(out_of_files.error().kind, ErrorKind::kUnavailable);

  fs::permissions(ShardOf(VersionAt(1, 1, 1)), fs::perms::none);
  fs::permissions(temporary_.path(), fs::perms::all);
  const bool root = ::geteuid() == 0;
  ASSERT_TRUE(!root || ::seteuid(65534) == 0);
  const auto forbidden = Load();
  ASSERT_TRUE(!root || ::seteuid(0) == 0);
  ASSERT_FALSE(forbidden.ok());
  EXPECT_EQ(forbidden.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(forbidden.error().message, HasSubstr("Permission denied"));

  fs::permissions(ShardOf(VersionAt(1, 1, 1)), fs::perms::owner_read);
  EXPECT_EQ(LoadedStep(), 1);
}

TEST_F(CheckpointTest, AFullVolumeIsAnErrorThatLeavesNothing) {
  const std::string small = temporary_.path() + "/small";
  fs::create_directory(small);
  if (::mount("none", small.c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "mounting a file system needs root";
  }
  const CheckpointFolder folder(small);
  TestState state(1, 100'000);

  const auto written = folder.Write(HeaderOf(VersionAt(1, 1, 1), state), state.view());
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

  const Result<void> made = CheckpointFolder(file + "/below").Make();

  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::kInvalid);
}

TEST_F(CheckpointTest, OthersAreFoundByNameAndByPathBelowTheVolumeAlone) {
  const CheckpointPlace mine{
      .volume = temporary_.path(), .ns = "team", .name = "digits", .uid = "me"};
  const auto write = [&](const std::string& below, int64_t step) {
    const CheckpointFolder folder(temporary_.path() + "/" + below);
    TestState state(static_cast<float>(step));
    const auto draft = folder.Write(HeaderOf(VersionAt(1, 1, step), state), state.view());
    ASSERT_TRUE(draft.ok());
    ASSERT_TRUE(folder.Publish(*draft).ok());
  };
  EXPECT_FALSE(FindOfJob(mine, "digits")->has_value());
  write("team/digits/old", 9);
  write("team/digits/me", 50);
  write("team/digits/new", 4);
  write("team/other/uid", 70);
  write("rival/digits/uid", 80);
  const auto later = fs::last_write_time(temporary_.path() + "/team/digits/old/1.1-9/DONE") +
                     std::chrono::seconds(5);
  fs::last_write_time(temporary_.path() + "/team/digits/new/1.1-4/DONE", later);
  fs::create_directory_symlink(temporary_.path() + "/rival", temporary_.path() + "/team/link");

  const auto of_name = FindOfJob(mine, "digits");
  ASSERT_TRUE(of_name.ok() && of_name->has_value());
  EXPECT_EQ((*of_name)->newest.step, 4) << "the one that was completed last, and not its own";
  const auto at = [&](const std::string& path) {
    CheckpointPlace place = mine;
    place.from_path = path;
    const auto found = FindToBeginWith(place);
    return found.ok() ? std::to_string(found->newest.step) : found.error().message;
  };
  EXPECT_EQ(at("team/digits/old"), "9");
  EXPECT_EQ(at("team/other/uid/1.1-70"), "70");
  for (const char* outside : {"../x", "team/../../x", "/etc", "team/link/digits/uid", "team/digits",
                              "team/digits/none", "team/digits/old/1.1-9/DONE"}) {
    EXPECT_THAT(at(outside), HasSubstr("cannot start from")) << outside;
  }
}

TEST_F(CheckpointTest, AChosenOneThatIsKnownToBeDamagedIsNotLoadedAgain) {
  const StateVersion version = VersionAt(1, 1, 2);
  Write(version);
  const OtherCheckpoints chosen{.folder = folder_, .newest = version, .chosen = version};
  TestState mine;
  EXPECT_TRUE(LoadOther(chosen, Identity(), PartsOf(mine.view()), damaged_).ok());

  damaged_[version] = "the checkpoint 1.1-2 lacks rows 0 to 28";

  const auto again = LoadOther(chosen, Identity(), PartsOf(mine.view()), damaged_);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().kind, ErrorKind::kInvalid);
}

TEST(Shaping, ReportsWhatDiffers) {
  EXPECT_EQ(WhatDiffers("--seed=1\n--steps=5\n", "--seed=1\n--steps=5\n"), "");
  EXPECT_EQ(WhatDiffers("--seed=1\n--steps=5\ntraining data=00\n",
                        "--seed=2\n--steps=5\ntraining data=01\n--classes=4\n"),
            "--classes=nothing instead of 4, --seed=1 instead of 2, other training data");
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
