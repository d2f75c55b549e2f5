#include "worker/agent/app/own_checkpoints.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/checkpoint_path.h"
#include "tests/unit/agent/data_cache/data_cache_folders.h"

namespace ringmaster::agent {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr char kUid[] = "11111111-2222-3333-4444-555555555555";

class OwnCheckpoints : public ::testing::Test {
 protected:
  fs::path Volume() const { return folders_.source(); }
  CheckpointOwner Owner() const {
    return {.volume = Volume().string(), .ns = "team-a", .job = "digits", .job_uid = kUid};
  }
  fs::path Own() const {
    return control::OwnCheckpoints(Volume().string(), "team-a", "digits", kUid);
  }
  void Put(const std::string& name, const std::string& text = "12345") { folders_.Put(name, text); }
  std::string OwnName(const std::string& name) const {
    return std::string("team-a/digits/") + kUid + "/" + name;
  }
  bool Exists(const std::string& name) const {
    return fs::symlink_status(Volume() / name).type() != fs::file_type::not_found;
  }

 private:
  DataCacheFolders folders_;
};

TEST_F(OwnCheckpoints, RemovesTheJobsOwnFolderAndNothingElse) {
  for (const char* name : {"1.1-50/shard-0", "1.1-50/DONE", ".writing-1.1-60~7/shard-0"}) {
    Put(OwnName(name));
  }
  for (const char* name : {"team-a/digits/another-uid/1.1-50/DONE", "team-a/digits/notes",
                           "team-a/longer/uid/DONE", "team-b/digits/uid/DONE", "DONE"}) {
    Put(name);
  }

  const auto removed = RemoveOwnCheckpoints(Owner());

  ASSERT_TRUE(removed.ok()) << removed.error().message;
  EXPECT_TRUE(removed->existed);
  EXPECT_EQ(removed->files, 3);
  EXPECT_EQ(removed->bytes, 15);
  EXPECT_FALSE(fs::exists(Own()));
  for (const char* name : {"team-a/digits/another-uid/1.1-50/DONE", "team-a/digits/notes",
                           "team-a/longer/uid/DONE", "team-b/digits/uid/DONE", "DONE"}) {
    EXPECT_TRUE(Exists(name)) << name;
  }
}

TEST_F(OwnCheckpoints, AFolderThatIsNotThereIsNoError) {
  const auto none = RemoveOwnCheckpoints(Owner());
  ASSERT_TRUE(none.ok()) << none.error().message;
  EXPECT_FALSE(none->existed);

  Put("team-a/digits/another-uid/DONE");
  const auto no_own = RemoveOwnCheckpoints(Owner());
  ASSERT_TRUE(no_own.ok()) << no_own.error().message;
  EXPECT_FALSE(no_own->existed);
}

TEST_F(OwnCheckpoints, RemovesAFolderOfManyFilesCompletely) {
  for (int i = 0; i < 2500; ++i) Put(OwnName("1.1-50/part-" + std::to_string(i)), "x");

  const auto removed = RemoveOwnCheckpoints(Owner());

  ASSERT_TRUE(removed.ok()) << removed.error().message;
  EXPECT_EQ(removed->files, 2500);
  EXPECT_FALSE(fs::exists(Own()));
}

TEST_F(OwnCheckpoints, LinksInTheFolderGoAndWhatTheyLeadToStays) {
  Put("team-b/precious/DONE");
  Put(OwnName("1.1-50/DONE"));
  fs::create_directory_symlink(Volume() / "team-b/precious", Own() / "2.1-60");
  fs::create_symlink(Volume() / "team-b/precious/DONE", Own() / "1.1-50/shard-0");
  fs::create_directory_symlink(Volume() / "team-b/precious", Own() / "DONE");

  const auto removed = RemoveOwnCheckpoints(Owner());

  ASSERT_TRUE(removed.ok()) << removed.error().message;
  EXPECT_FALSE(Exists(OwnName("")));
  EXPECT_TRUE(Exists("team-b/precious/DONE"));
}

// Tests a symbolic link in the path, which anyone who shares the volume can create.
TEST_F(OwnCheckpoints, ALinkOnTheWayThereIsRefused) {
  for (const std::string& link : {std::string("team-a"), std::string("team-a/digits"),
                                  std::string("team-a/digits/") + kUid}) {
    Put("team-b/digits/" + std::string(kUid) + "/DONE");
    fs::remove_all(Volume() / "team-a");
    fs::create_directories((Volume() / link).parent_path());
    fs::path target = Volume() / "team-b";
    if (link != "team-a") target /= "digits";
    if (link.ends_with(kUid)) target /= kUid;
    fs::create_directory_symlink(target, Volume() / link);

    const auto removed = RemoveOwnCheckpoints(Owner());

    ASSERT_FALSE(removed.ok()) << link;
    EXPECT_EQ(removed.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(removed.error().message, HasSubstr("link"));
    EXPECT_TRUE(Exists("team-b/digits/" + std::string(kUid) + "/DONE")) << link;
  }
}

TEST_F(OwnCheckpoints, NamesThatAreMoreThanOneStepAreRefused) {
  Put("team-b/digits/uid/DONE");
  Put("team-a/digits/uid/DONE");
  for (const char* name : {"", ".", "..", "../team-b", "/", "a/b", "uid/"}) {
    for (std::string CheckpointOwner::*field :
         {&CheckpointOwner::ns, &CheckpointOwner::job, &CheckpointOwner::job_uid}) {
      CheckpointOwner owner = Owner();
      owner.*field = name;

      const auto removed = RemoveOwnCheckpoints(owner);

      ASSERT_FALSE(removed.ok()) << name;
      EXPECT_EQ(removed.error().kind, ErrorKind::kInvalid) << name;
    }
  }
  EXPECT_TRUE(Exists("team-b/digits/uid/DONE"));
  EXPECT_TRUE(Exists("team-a/digits/uid/DONE"));
}

TEST_F(OwnCheckpoints, FoldersWithoutEndAreRefused) {
  std::string deep = "x";
  for (int i = 0; i < 100; ++i) deep += "/x";
  Put(OwnName(deep));

  const auto removed = RemoveOwnCheckpoints(Owner());

  ASSERT_FALSE(removed.ok());
  EXPECT_THAT(removed.error().message, HasSubstr("nested too deeply"));
}

}  // namespace
}  // namespace ringmaster::agent
