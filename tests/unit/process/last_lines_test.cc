#include "common/process/last_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmaster {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(LastLines, KeepsTheLastTenOfBothStreams) {
  LastLines lines;
  for (int i = 0; i < 12; ++i) lines.Append(i % 2 == 0, "line " + std::to_string(i) + "\n");

  const auto kept = lines.Lines();

  ASSERT_EQ(kept.size(), LastLines::kMaxLines);
  EXPECT_EQ(kept.front(), "line 2");
  EXPECT_EQ(kept.back(), "line 11");
}

TEST(LastLines, JoinsPiecesOfALineAndCountsTheUnfinishedOne) {
  LastLines lines;
  lines.Append(false, "one ");
  lines.Append(true, "error\n");
  lines.Append(false, "line\nand the rest");

  EXPECT_THAT(lines.Lines(), ElementsAre("error", "one line", "and the rest"));
}

TEST(LastLines, CutsLongLinesAndDropsEmptyOnes) {
  LastLines lines;
  lines.Append(false, "\n  \r\n" + std::string(5000, 'x') + "\n");

  ASSERT_EQ(lines.Lines().size(), 1U);
  EXPECT_EQ(lines.Lines()[0].size(), LastLines::kMaxLineBytes);
}

TEST(LastLines, ReplacesControlCharacters) {
  LastLines lines;
  lines.Append(false, "a\x1b[31mb\tc\n");

  EXPECT_THAT(lines.Lines(), ElementsAre("a [31mb c"));
}

TEST(LastLines, IsEmptyAtFirst) { EXPECT_THAT(LastLines().Lines(), IsEmpty()); }

}  // namespace
}  // namespace ringmaster
