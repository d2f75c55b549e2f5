#include "worker/agent/data_cache/data_cache.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/file_lease.h"
#include "tests/unit/agent/data_cache/data_cache_folders.h"
#include "worker/agent/data_cache/copier.h"

namespace ringmaster::agent {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

Result<void> Fill(const DataCacheFolders& folders, const MemorySources& memory = {}) {
  FillCounters counters;
  return FillDataCache(folders.Settings(), memory, counters, {});
}

std::string WhyNot(const Result<void>& filled) { return filled.ok() ? "" : filled.error().message; }

// Returns text in which the content of each page depends on its position.
std::string Pattern(std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  std::string pattern;
  for (std::size_t page = 0; pattern.size() < bytes; ++page) {
    pattern.append(std::min(kPage, bytes - pattern.size()), static_cast<char>(page % 251));
  }
  return pattern;
}

TEST(FillDataCache, CopiesFilesFoldersAndLinks) {
  DataCacheFolders folders;
  folders.Put("a/b/images", "pixels");
  folders.Put("labels", "");
  std::filesystem::create_symlink("a/b/images", folders.source() / "link");
  std::filesystem::create_directory(folders.source() / "empty");

  FillCounters counters;
  const auto filled = FillDataCache(folders.Settings(), {}, counters, {});

  ASSERT_TRUE(filled.ok()) << filled.error().message;
  EXPECT_EQ(folders.Cached("a/b/images"), "pixels");
  EXPECT_EQ(folders.Cached("labels"), "");
  EXPECT_EQ(folders.Cached("link"), "pixels");
  EXPECT_EQ(std::filesystem::read_symlink(folders.cache() / "link"), "a/b/images");
  EXPECT_TRUE(std::filesystem::is_directory(folders.cache() / "empty"));
  EXPECT_EQ(counters.bytes_done, 6);
  EXPECT_EQ(counters.bytes_total, 6);
}

TEST(FillDataCache, CopiesALargeFileInSegmentsAndManySmallOnes) {
  DataCacheFolders folders;
  const std::string large = Pattern(FileCopy::kSegmentBytes + 12'345);
  folders.Put("large", large);
  for (int i = 0; i < 300; ++i) folders.Put("small/" + std::to_string(i), std::to_string(i));

  const auto filled = Fill(folders);

  ASSERT_TRUE(filled.ok()) << filled.error().message;
  EXPECT_TRUE(folders.Cached("large") == large);
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(folders.Cached("small/" + std::to_string(i)), std::to_string(i));
  }
}

TEST(FillDataCache, CopiesOnlyTheSubPath) {
  DataCacheFolders folders;
  folders.Put("wanted/file", "1");
  folders.Put("other", "2");
  FillCounters counters;

  const auto filled = FillDataCache(folders.Settings("wanted"), {}, counters, {});

  ASSERT_TRUE(filled.ok()) << filled.error().message;
  EXPECT_EQ(folders.Cached("file"), "1");
  EXPECT_EQ(folders.Cached("other"), "<none>");
}

TEST(FillDataCache, AFinishedCopyIsNotMadeAgain) {
  DataCacheFolders folders;
  const std::filesystem::path file = folders.Put("file", "first");
  ASSERT_TRUE(Fill(folders).ok());
  const auto made_at = std::filesystem::last_write_time(folders.cache() / "file");
  folders.Put("file", "second");

  ASSERT_TRUE(Fill(folders).ok());

  EXPECT_EQ(folders.Cached("file"), "first");
  EXPECT_EQ(std::filesystem::last_write_time(folders.cache() / "file"), made_at);
}

TEST(FillDataCache, ReplacesAnIncompleteCopy) {
  DataCacheFolders folders;
  folders.Put("file", "whole");
  ASSERT_TRUE(Fill(folders).ok());
  // The agent was killed while it filled the cache.
  std::ofstream(folders.cache() / kCacheMark) << "filling\n";
  std::filesystem::remove(folders.cache() / "file");
  std::ofstream(folders.cache() / "file") << "ha";
  std::ofstream(folders.cache() / "of another try") << "old";

  const auto filled = Fill(folders);

  ASSERT_TRUE(filled.ok()) << filled.error().message;
  EXPECT_EQ(folders.Cached("file"), "whole");
  EXPECT_EQ(folders.Cached("of another try"), "<none>");
}

TEST(FillDataCache, ACopyOfAnotherSourceDoesNotCount) {
  DataCacheFolders folders;
  folders.Put("one/file", "1");
  folders.Put("two/file", "2");
  FillCounters counters;
  ASSERT_TRUE(FillDataCache(folders.Settings("one"), {}, counters, {}).ok());

  ASSERT_TRUE(FillDataCache(folders.Settings("two"), {}, counters, {}).ok());

  EXPECT_EQ(folders.Cached("file"), "2");
}

TEST(FillDataCache, DoesNotTouchAFolderThatNoAgentCreated) {
  DataCacheFolders folders;
  folders.Put("file", "1");
  std::ofstream(folders.cache() / "thesis.tex") << "mine";

  EXPECT_THAT(WhyNot(Fill(folders)), HasSubstr("thesis.tex, which no agent created"));

  EXPECT_EQ(folders.Cached("thesis.tex"), "mine");
  EXPECT_EQ(folders.Cached("file"), "<none>");
}

// Tests a folder whose agent was killed while it wrote the first mark.
TEST(FillDataCache, AMarkThatWasNeverFinishedIsNoObstacle) {
  DataCacheFolders folders;
  folders.Put("file", "1");
  std::ofstream(folders.cache() / (std::string(kCacheMark) + ".new")) << "fil";

  EXPECT_EQ(WhyNot(Fill(folders)), "");
}

TEST(FillDataCache, DecidesBeforeItCopies) {
  DataCacheFolders folders;
  folders.Put("small", "1");
  std::ofstream(folders.source() / "huge").close();
  std::filesystem::resize_file(folders.source() / "huge", std::uintmax_t{8} << 40);

  EXPECT_THAT(WhyNot(Fill(folders)), HasSubstr("the memory volume holds"));

  EXPECT_EQ(folders.Cached("small"), "<none>");
}

TEST(FileCopy, AFileThatGrewShrankOrWasRewrittenIsAnError) {
  DataCacheFolders folders;
  std::vector<char> buffer(1 << 16);
  std::atomic<std::int64_t> done{0};
  const auto copy_after = [&](const std::string& name, const std::function<void()>& change) {
    const std::string bytes = Pattern(100'000);
    const std::filesystem::path file = folders.Put(name, bytes);
    const auto copy = FileCopy::Open(folders.source(), folders.cache(), name, 100'000, {});
    EXPECT_TRUE(copy.ok());
    change();
    return (*copy)->CopySegment(0, buffer, done, {});
  };
  const auto path = [&](const std::string& name) { return folders.source() / name; };

  EXPECT_EQ(WhyNot(copy_after("same", [] {})), "");
  EXPECT_THAT(
      WhyNot(copy_after("grown", [&] { std::ofstream(path("grown"), std::ios::app) << "more"; })),
      HasSubstr("grown of the data source changed during the copy"));
  EXPECT_THAT(
      WhyNot(copy_after("shrunk", [&] { std::filesystem::resize_file(path("shrunk"), 60'000); })),
      HasSubstr("changed during the copy"));
  EXPECT_THAT(WhyNot(copy_after("touched",
                                [&] {
                                  std::filesystem::last_write_time(
                                      path("touched"),
                                      std::filesystem::file_time_type::clock::now() -
                                          std::chrono::hours(1));
                                })),
              HasSubstr("changed during the copy"));
}

TEST(FileCopy, NamesTheFileThatCannotBeRead) {
  DataCacheFolders folders;

  const auto copy = FileCopy::Open(folders.source(), folders.cache(), "gone", 5, {});

  ASSERT_FALSE(copy.ok());
  EXPECT_EQ(copy.error().message, "reading gone failed: No such file or directory");
}

TEST(FileCopy, AnotherSizeThanMeasuredIsAnError) {
  DataCacheFolders folders;
  folders.Put("file", "1234");

  const auto copy = FileCopy::Open(folders.source(), folders.cache(), "file", 5, {});

  ASSERT_FALSE(copy.ok());
  EXPECT_EQ(copy.error().kind, ErrorKind::kConflict);
}

TEST(CopyFolder, FilesThatCameInTheMeantimeAreAnError) {
  DataCacheFolders folders;
  folders.Put("file", "1234");
  const auto source = SourceFolder::Open(folders.source(), "");
  const auto measured = source->Measure({});
  folders.Put("late", "5");
  std::atomic<std::int64_t> done{0};

  const auto copied = CopyFolder(*source, folders.cache(), *measured, done, {});

  ASSERT_FALSE(copied.ok());
  EXPECT_THAT(copied.error().message, HasSubstr("added to or removed from"));
}

TEST(CopyFolder, TheFirstErrorEndsItWithManyFilesWaiting) {
  DataCacheFolders folders;
  for (int i = 0; i < 600; ++i) folders.Put(std::to_string(i), "1");
  const auto source = SourceFolder::Open(folders.source(), "");
  const auto measured = source->Measure({});
  std::ofstream(folders.cache() / "0") << "in the way";
  std::atomic<std::int64_t> done{0};

  const auto copied = CopyFolder(*source, folders.cache(), *measured, done, {});

  ASSERT_FALSE(copied.ok());
  EXPECT_THAT(copied.error().message, HasSubstr("writing 0 failed: File exists"));
}

// Records the callbacks of DataCache, on an io_context that runs until DataCache has ended.
struct News {
  std::vector<control::DataCacheProgress> progress;
  std::vector<std::optional<std::string>> ends;

  DataCache::Handlers Handlers() {
    return {.on_progress = [this](const auto& news) { progress.push_back(news); },
            .on_end = [this](const auto& fault) { ends.push_back(fault); }};
  }
};

TEST(DataCache, ReportsProgressAndThenThatTheDataIsComplete) {
  DataCacheFolders folders;
  folders.Put("first", std::string(3 * kMiB, 'x'));
  FileLease lease(folders.Put("last", "1234"));
  ASSERT_TRUE(lease.held());
  boost::asio::io_context io;
  News told;
  DataCache::Handlers handlers = told.Handlers();
  handlers.on_progress = [&](const auto& news) {
    told.progress.push_back(news);
    if (news.bytes_done == 3 * kMiB) lease.End();
  };
  DataCache cache(io, folders.Settings(), std::move(handlers), {}, std::chrono::milliseconds(1));
  EXPECT_FALSE(cache.ended());
  EXPECT_TRUE(cache.Running());

  io.run();

  EXPECT_EQ(told.ends, (std::vector<std::optional<std::string>>{std::nullopt}));
  EXPECT_TRUE(cache.ended());
  EXPECT_FALSE(cache.Running());
  EXPECT_FALSE(cache.Progress().has_value());
  ASSERT_FALSE(told.progress.empty());
  EXPECT_EQ(told.progress.back().bytes_total, 3 * kMiB + 4);
  for (std::size_t i = 1; i < told.progress.size(); ++i) {
    EXPECT_GT(told.progress[i].bytes_done, told.progress[i - 1].bytes_done);
  }
  EXPECT_EQ(folders.Cached("last"), "1234");
}

TEST(DataCache, ReportsWhyTheDataCannotBeCopied) {
  DataCacheFolders folders;
  boost::asio::io_context io;
  News told;
  DataCache cache(io, folders.Settings(), told.Handlers());

  io.run();

  ASSERT_EQ(told.ends.size(), 1U);
  EXPECT_THAT(told.ends[0].value_or(""), HasSubstr("no file in the data source"));
  EXPECT_TRUE(told.progress.empty());
}

TEST(DataCache, EndsAtOnceInTheMiddleOfACopy) {
  DataCacheFolders folders;
  folders.Put("first", "12");
  FileLease lease(folders.Put("last", "1234"));
  ASSERT_TRUE(lease.held());
  boost::asio::io_context io;
  News told;
  DataCache::Handlers handlers = told.Handlers();
  const auto began = std::chrono::steady_clock::now();
  {
    std::unique_ptr<DataCache> cache;
    handlers.on_progress = [&](const auto& /*news*/) { cache->Stop(); };
    cache = std::make_unique<DataCache>(io, folders.Settings(), std::move(handlers),
                                        MemorySources{}, std::chrono::milliseconds(1));
    io.run();
  }

  EXPECT_TRUE(told.ends.empty());
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
  EXPECT_EQ(folders.Cached(kCacheMark), "filling\n");
}

}  // namespace
}  // namespace ringmaster::agent
