#include "worker/trainer/data/idx.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/trainer/idx_files.h"

namespace ringmaster::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct BadFile {
  const char* what;
  std::string bytes;
  std::vector<const char*> says;
};

TEST(ParseIdxImages, ReadsImages) {
  const auto images = ParseIdxImages(IdxImageBytes(2, 1, 3, "abcdef"), "f");

  ASSERT_TRUE(images.ok());
  EXPECT_EQ(images->count, 2);
  EXPECT_EQ(images->rows, 1);
  EXPECT_EQ(images->columns, 3);
  EXPECT_THAT(images->pixels, ElementsAre('a', 'b', 'c', 'd', 'e', 'f'));
}

TEST(ParseIdxImages, NamesFileOffsetAndExpectation) {
  const std::string good = IdxImageBytes(2, 2, 2, std::string(8, 'x'));
  const std::vector<BadFile> files = {
      {"empty", "", {"offset 0", "expected the magic number"}},
      {"three bytes", "abc", {"offset 0", "ends after 3 bytes"}},
      {"labels instead", IdxLabelBytes(1, "a"), {"offset 0", "0x00000803", "found 0x00000801"}},
      {"gzip bytes", "\x1f\x8b\x08 and more", {"offset 0", "found 0x1f8b0820"}},
      {"cut in the header", good.substr(0, 10), {"offset 8", "number of rows"}},
      {"no images", IdxImageBytes(0, 2, 2, ""), {"offset 4", "at least one image"}},
      {"no rows", IdxImageBytes(1, 0, 2, ""), {"offset 8", "rows", "found 0"}},
      {"huge columns",
       IdxImageBytes(1, 2, 0xffffffff, ""),
       {"offset 12", "columns", "found 4294967295"}},
      {"cut in the pixels", good.substr(0, 20), {"offset 20", "expected 8 bytes", "truncated"}},
      {"count beyond the file",
       IdxImageBytes(0xffffffff, 4096, 4096, "x"),
       {"expected 72057594021150720 bytes"}},
      {"more than it says", good + "yy", {"offset 24", "2 more bytes"}},
  };

  for (const BadFile& file : files) {
    const auto images = ParseIdxImages(file.bytes, "/data/train-images");

    ASSERT_FALSE(images.ok()) << file.what;
    EXPECT_EQ(images.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(images.error().message, HasSubstr("/data/train-images"));
    for (const char* part : file.says)
      EXPECT_THAT(images.error().message, HasSubstr(part)) << file.what;
  }
}

TEST(ParseIdxLabels, ReadsLabels) {
  const auto labels = ParseIdxLabels(IdxLabelBytes(3, {'\0', '\x09', '\x05'}), "f", 10);

  ASSERT_TRUE(labels.ok());
  EXPECT_THAT(*labels, ElementsAre(0, 9, 5));
}

TEST(ParseIdxLabels, NamesFileOffsetAndExpectation) {
  const std::vector<BadFile> files = {
      {"images instead",
       IdxImageBytes(1, 1, 1, "a"),
       {"offset 0", "0x00000801", "found 0x00000803"}},
      {"cut", IdxLabelBytes(5, "abc"), {"offset 11", "expected 5 bytes", "truncated"}},
      {"out of range",
       IdxLabelBytes(3, {'\1', '\2', '\x0b'}),
       {"offset 10", "0 to 9", "found 11", "label 2"}},
  };

  for (const BadFile& file : files) {
    const auto labels = ParseIdxLabels(file.bytes, "/data/labels", 10);

    ASSERT_FALSE(labels.ok()) << file.what;
    EXPECT_THAT(labels.error().message, HasSubstr("/data/labels"));
    for (const char* part : file.says)
      EXPECT_THAT(labels.error().message, HasSubstr(part)) << file.what;
  }
}

}  // namespace
}  // namespace ringmaster::trainer
