#include "worker/trainer/data/dataset.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "tests/unit/trainer/idx_files.h"
#include "tests/unit/trainer/temporary_folder.h"
#include "worker/trainer/data/file_bytes.h"

namespace ringmaster::trainer {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kSide = kImageSide;

// Writes a valid data set: two training images and one held-out image.
void WriteGoodFolder(const TemporaryFolder& folder) {
  folder.Write("train-images-idx3-ubyte",
               IdxImageBytes(2, kSide, kSide, std::string(2 * kImagePixels, '\x07')));
  folder.Write("train-labels-idx1-ubyte", IdxLabelBytes(2, {'\3', '\4'}));
  folder.Write("t10k-images-idx3-ubyte",
               IdxImageBytes(1, kSide, kSide, std::string(kImagePixels, '\x09')));
  folder.Write("t10k-labels-idx1-ubyte", IdxLabelBytes(1, {'\5'}));
}

std::string WriteGzip(const TemporaryFolder& folder, const std::string& name,
                      const std::string& bytes) {
  const std::string path = folder.path() + "/" + name;
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  return path;
}

TEST(LoadIdxFolder, ReadsPlainFiles) {
  const TemporaryFolder folder;
  WriteGoodFolder(folder);

  const auto data = LoadIdxFolder(folder.path());

  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_EQ(data->training->size(), 2);
  EXPECT_EQ(data->training->Label(1), 4);
  EXPECT_EQ(data->training->Image(1)[kImagePixels - 1], 7);
  EXPECT_EQ(data->held_out->size(), 1);
  EXPECT_EQ(data->held_out->Label(0), 5);
}

TEST(LoadIdxFolder, ReadsGzipFiles) {
  const TemporaryFolder folder;
  WriteGoodFolder(folder);
  std::filesystem::remove(folder.path() + "/train-labels-idx1-ubyte");
  WriteGzip(folder, "train-labels-idx1-ubyte.gz", IdxLabelBytes(2, {'\1', '\2'}));

  const auto data = LoadIdxFolder(folder.path());

  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_EQ(data->training->Label(0), 1);
}

TEST(LoadIdxFolder, NamesTheMissingFile) {
  const TemporaryFolder folder;
  WriteGoodFolder(folder);
  std::filesystem::remove(folder.path() + "/t10k-images-idx3-ubyte");

  const auto data = LoadIdxFolder(folder.path());

  ASSERT_FALSE(data.ok());
  EXPECT_EQ(data.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(data.error().message, HasSubstr(folder.path()));
  EXPECT_THAT(data.error().message, HasSubstr("t10k-images-idx3-ubyte.gz"));
}

TEST(LoadIdxFolder, RefusesWhatIsNoFolder) {
  const auto data = LoadIdxFolder("/nonexistent/digits");

  ASSERT_FALSE(data.ok());
  EXPECT_EQ(data.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(data.error().message, HasSubstr("/nonexistent/digits"));
}

TEST(LoadIdxFolder, RefusesUnequalCounts) {
  const TemporaryFolder folder;
  WriteGoodFolder(folder);
  folder.Write("train-labels-idx1-ubyte", IdxLabelBytes(1, {'\3'}));

  const auto data = LoadIdxFolder(folder.path());

  ASSERT_FALSE(data.ok());
  EXPECT_THAT(data.error().message, HasSubstr("expected 2 labels"));
  EXPECT_THAT(data.error().message, HasSubstr("found 1"));
}

TEST(ReadMaybeGzip, ReportsWhereAGzipStreamIsCutOff) {
  const TemporaryFolder folder;
  std::string noise(100'000, '\0');
  uint32_t state = 1;
  for (char& c : noise) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  const std::string path = WriteGzip(folder, "cut.gz", noise);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);

  const auto bytes = ReadMaybeGzip(path);

  ASSERT_FALSE(bytes.ok());
  EXPECT_THAT(bytes.error().message, HasSubstr(path));
  EXPECT_THAT(bytes.error().message, HasSubstr("truncated"));
}

// Linux answers EIO to a read of the first, unmapped, bytes of a process's memory.
TEST(ReadMaybeGzip, AnErrorOfTheVolumeMayPass) {
  const auto bytes = ReadMaybeGzip("/proc/self/mem");

  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(bytes.error().message, HasSubstr("/proc/self/mem, offset 0: "));
}

TEST(ReadMaybeGzip, StopsAtItsLimit) {
  const TemporaryFolder folder;
  const std::string path = WriteGzip(folder, "bomb.gz", std::string(4 << 20, 'a'));

  EXPECT_FALSE(ReadMaybeGzip(path, 1 << 20).ok());
  EXPECT_TRUE(ReadMaybeGzip(path).ok());
}

TEST(ScaleToImage, KeepsConstantsCornersAndGradients) {
  std::vector<uint8_t> constant(64, 200);
  std::vector<uint8_t> slope(64);
  for (std::size_t i = 0; i < slope.size(); ++i) slope[i] = static_cast<uint8_t>(i % 8 * 30);
  std::array<uint8_t, kImagePixels> scaled{};

  ScaleToImage(constant.data(), 8, 8, scaled.data());
  EXPECT_TRUE(std::all_of(scaled.begin(), scaled.end(), [](uint8_t p) { return p == 200; }));

  ScaleToImage(slope.data(), 8, 8, scaled.data());
  EXPECT_EQ(scaled[0], 0);
  EXPECT_EQ(scaled[kImageSide - 1], 210);
  EXPECT_TRUE(std::is_sorted(scaled.begin(), scaled.begin() + kImageSide));
}

TEST(ScaleToImage, AveragesLargerImages) {
  std::vector<uint8_t> checks(56 * 56);
  for (std::size_t i = 0; i < checks.size(); ++i) checks[i] = (i % 2) != 0 ? 255 : 0;
  std::array<uint8_t, kImagePixels> scaled{};

  ScaleToImage(checks.data(), 56, 56, scaled.data());

  EXPECT_NEAR(scaled[100], 128, 1);
}

TEST(GeneratedDigits, DependOnSeedAndIndexAlone) {
  const Dataset one = GeneratedDigits(5, 100, 10);
  const Dataset two = GeneratedDigits(5, 1000, 10);  // more samples, generated in another order
  const Dataset other = GeneratedDigits(6, 100, 10);
  const auto pixels = [](ImageSet& images, int64_t i) {
    return std::vector<uint8_t>(images.Image(i), images.Image(i) + kImagePixels);
  };

  two.training->Image(999);

  EXPECT_EQ(pixels(*one.training, 17), pixels(*two.training, 17));
  EXPECT_EQ(one.training->Label(17), two.training->Label(17));
  EXPECT_NE(pixels(*one.training, 17), pixels(*other.training, 17));
  EXPECT_NE(pixels(*one.training, 3), pixels(*one.held_out, 3));
}

TEST(GeneratedDigits, CoverAllClassesWithInk) {
  const Dataset data = GeneratedDigits(5, 500, 10);
  std::array<int, kClasses> seen{};

  for (int64_t i = 0; i < data.training->size(); ++i) {
    ++seen.at(data.training->Label(i));
    const uint8_t* image = data.training->Image(i);
    EXPECT_GT(std::count_if(image, image + kImagePixels, [](uint8_t p) { return p > 128; }), 10);
  }
  for (const int count : seen) EXPECT_GT(count, 20);
}

}  // namespace
}  // namespace ringmaster::trainer
