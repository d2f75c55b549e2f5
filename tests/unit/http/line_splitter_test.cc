#include "operator/http/line_splitter.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace ringmaster::http {
namespace {

struct Collected {
  std::vector<std::string> lines;
  LineSplitter::OnLine Sink() {
    return [this](std::string_view line) {
      lines.emplace_back(line);
      return true;
    };
  }
};

TEST(LineSplitter, JoinsPiecesOfALine) {
  LineSplitter splitter(100);
  Collected collected;

  for (const char* piece : {"{\"a\"", ":1", "}\n{\"b\":2}\n{", "}"}) {
    ASSERT_TRUE(splitter.Append(piece, collected.Sink()));
  }

  EXPECT_EQ(collected.lines, (std::vector<std::string>{"{\"a\":1}", "{\"b\":2}"}));
}

TEST(LineSplitter, SkipsEmptyLinesAndCarriageReturns) {
  LineSplitter splitter(100);
  Collected collected;

  ASSERT_TRUE(splitter.Append("\n\r\nx\r\n\n", collected.Sink()));

  EXPECT_EQ(collected.lines, std::vector<std::string>{"x"});
}

TEST(LineSplitter, PassesOverALineLongerThanTheMaximumAndTellsItsBeginning) {
  for (const std::vector<std::string>& pieces : {std::vector<std::string>{"1234\n12345678\nab\n"},
                                                 {"1234\n123", "45678", "9\nab\n"},
                                                 {"1234\n", "123456", "\n", "ab\n"}}) {
    std::vector<std::string> beginnings;
    LineSplitter splitter(4,
                          [&](std::string_view beginning) { beginnings.emplace_back(beginning); });
    Collected collected;

    for (const std::string& piece : pieces) EXPECT_TRUE(splitter.Append(piece, collected.Sink()));

    EXPECT_EQ(collected.lines, (std::vector<std::string>{"1234", "ab"}));
    EXPECT_EQ(beginnings, std::vector<std::string>{"1234"});
  }
}

TEST(LineSplitter, StopsWhenTheSinkHasEnough) {
  LineSplitter splitter(100);
  int lines = 0;

  const auto more = splitter.Append("a\nb\nc\n", [&](std::string_view) { return ++lines < 2; });

  EXPECT_FALSE(more);
  EXPECT_EQ(lines, 2);
}

}  // namespace
}  // namespace ringmaster::http
