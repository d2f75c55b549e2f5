#include "worker/agent/data_cache/source_folder.h"

#include <map>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/agent/data_cache/data_cache_folders.h"

namespace ringmaster::agent {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string MeasuringFails(const DataCacheFolders& folders, const std::string& sub_path = "") {
  const Result<SourceFolder> source = SourceFolder::Open(folders.source(), sub_path);
  if (!source.ok()) return source.error().message;
  const Result<SourceSize> size = source->Measure({});
  return size.ok() ? "" : size.error().message;
}

void MakeSocket(const std::filesystem::path& path) {
  const int file = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.string().size(), sizeof address.sun_path);
  path.string().copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(file, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  close(file);
}

TEST(SourceFolder, WalksFoldersBeforeWhatIsInThem) {
  DataCacheFolders folders;
  folders.Put("a/b/deep", "1234");
  folders.Put("top", "12");
  const Result<SourceFolder> source = SourceFolder::Open(folders.source(), "");
  ASSERT_TRUE(source.ok()) << source.error().message;

  std::map<std::string, std::int64_t> found;
  const auto walked = source->Walk({}, [&](const SourceEntry& entry) -> Result<void> {
    const std::string parent = entry.path.parent_path();
    EXPECT_TRUE(parent.empty() || found.contains(parent)) << entry.path;
    found[entry.path] = entry.kind == SourceEntry::Kind::kFile ? entry.bytes : -1;
    return {};
  });

  EXPECT_TRUE(walked.ok());
  EXPECT_EQ(found, (std::map<std::string, std::int64_t>{
                       {"a", -1}, {"a/b", -1}, {"a/b/deep", 4}, {"top", 2}}));
}

TEST(SourceFolder, LeavesOutWhatIsNotData) {
  DataCacheFolders folders;
  folders.Put("data", "1");
  folders.Put("lost+found/inode", "12345678");
  folders.Put(kCacheMark, "complete /elsewhere\n");
  folders.Put("deep/lost+found", "23");

  const auto size = SourceFolder::Open(folders.source(), "")->Measure({});

  ASSERT_TRUE(size.ok()) << size.error().message;
  EXPECT_EQ(size->bytes, 3);
  EXPECT_EQ(size->files, 2);
  EXPECT_EQ(size->entries, 3);
}

TEST(SourceFolder, ASubPathIsAFolderWithinTheVolume) {
  DataCacheFolders folders;
  folders.Put("faces/train/images", "1234");
  folders.Put("other", "1");
  std::filesystem::create_symlink("/usr", folders.source() / "system");

  EXPECT_EQ(SourceFolder::Open(folders.source(), "faces/train")->Measure({})->bytes, 4);
  EXPECT_THAT(MeasuringFails(folders, "Faces"),
              AllOf(HasSubstr("no folder Faces"), HasSubstr("spec.dataCache.subPath")));
  EXPECT_THAT(MeasuringFails(folders, "other"), HasSubstr("is a file"));
  EXPECT_THAT(MeasuringFails(folders, "system"), HasSubstr("leads out of the data source"));
  EXPECT_THAT(MeasuringFails(folders, "../cache"), HasSubstr("leads out of the data source"));
}

TEST(SourceFolder, AnEmptySourceIsAMistake) {
  DataCacheFolders folders;
  std::filesystem::create_directory(folders.source() / "empty");

  EXPECT_THAT(MeasuringFails(folders), HasSubstr("no file in the data source"));
}

TEST(SourceFolder, RefusesByNameWhatIsNoFile) {
  for (const std::string kind : {"socket", "pipe"}) {
    DataCacheFolders folders;
    folders.Put("data", "1");
    std::filesystem::create_directory(folders.source() / "in");
    const std::filesystem::path odd = folders.source() / "in" / "odd";
    if (kind == "socket") {
      MakeSocket(odd);
    } else {
      ASSERT_EQ(mkfifo(odd.c_str(), 0600), 0);
    }

    EXPECT_THAT(MeasuringFails(folders), AllOf(HasSubstr("in/odd"), HasSubstr("is a " + kind)));
  }
}

TEST(SourceFolder, RefusesADevice) {
  DataCacheFolders folders;
  folders.Put("data", "1");
  if (mknod((folders.source() / "null").c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0) {
    GTEST_SKIP() << "making a device needs root";
  }

  EXPECT_THAT(MeasuringFails(folders), AllOf(HasSubstr("null"), HasSubstr("is a device")));
}

TEST(SourceFolder, KeepsLinksWithinAndRefusesOthersByName) {
  DataCacheFolders folders;
  folders.Put("..2026/images", "1234");
  std::filesystem::create_symlink("..2026", folders.source() / "..data");
  std::filesystem::create_symlink("..data/images", folders.source() / "images");
  std::filesystem::create_directory(folders.source() / "in");
  std::filesystem::create_symlink(folders.source() / "images", folders.source() / "in/absolute");
  std::map<std::string, std::string> links;
  const auto walked = SourceFolder::Open(folders.source(), "")
                          ->Walk({}, [&](const SourceEntry& entry) -> Result<void> {
                            if (entry.kind == SourceEntry::Kind::kLink)
                              links[entry.path] = entry.link;
                            return {};
                          });
  ASSERT_TRUE(walked.ok()) << walked.error().message;
  EXPECT_EQ(links, (std::map<std::string, std::string>{{"..data", "..2026"},
                                                       {"images", "..2026/images"},
                                                       {"in/absolute", "../..2026/images"}}));

  std::filesystem::create_symlink("/etc/passwd", folders.source() / "in/secret");
  EXPECT_THAT(MeasuringFails(folders),
              AllOf(HasSubstr("in/secret"), HasSubstr("target outside of it, /etc/passwd")));
  std::filesystem::remove(folders.source() / "in/secret");
  std::filesystem::create_symlink("gone", folders.source() / "in/broken");
  EXPECT_THAT(MeasuringFails(folders), AllOf(HasSubstr("in/broken"), HasSubstr("broken link")));
}

// A sibling folder whose name starts with the source's name is also outside.
TEST(SourceFolder, ComparesPathsByTheirParts) {
  DataCacheFolders folders;
  folders.Put("data", "1");
  std::filesystem::create_directory(folders.root() / "source-of-others");
  std::filesystem::create_symlink("../source-of-others", folders.source() / "link");

  EXPECT_THAT(MeasuringFails(folders), HasSubstr("target outside"));
}

TEST(SourceFolder, AWalkThatIsStoppedEnds) {
  DataCacheFolders folders;
  folders.Put("data", "1");
  std::stop_source stop;
  stop.request_stop();

  const auto size = SourceFolder::Open(folders.source(), "")->Measure(stop.get_token());

  ASSERT_FALSE(size.ok());
  EXPECT_EQ(size.error().kind, ErrorKind::kCancelled);
}

}  // namespace
}  // namespace ringmaster::agent
