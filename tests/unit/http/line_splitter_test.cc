#include "operator/http/line_splitter.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

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
    ASSERT_TRUE(splitter.Append(piece, collected.Sink()).ok());
  }

  EXPECT_EQ(collected.lines, (std::vector<std::string>{"{\"a\":1}", "{\"b\":2}"}));
}

TEST(LineSplitter, SkipsEmptyLinesAndCarriageReturns) {
  LineSplitter splitter(100);
  Collected collected;

  ASSERT_TRUE(splitter.Append("\n\r\nx\r\n\n", collected.Sink()).ok());

  EXPECT_EQ(collected.lines, std::vector<std::string>{"x"});
}

TEST(LineSplitter, RefusesALineLongerThanTheMaximum) {
  LineSplitter whole(4);
  LineSplitter pieces(4);
  Collected collected;

  EXPECT_TRUE(whole.Append("1234\n", collected.Sink()).ok());
  const auto at_once = whole.Append("12345\n", collected.Sink());
  EXPECT_TRUE(pieces.Append("123", collected.Sink()).ok());
  const auto in_pieces = pieces.Append("45", collected.Sink());

  ASSERT_FALSE(at_once.ok());
  EXPECT_EQ(at_once.error().kind, ErrorKind::kInvalid);
  ASSERT_FALSE(in_pieces.ok());
  EXPECT_EQ(collected.lines, std::vector<std::string>{"1234"});
}

TEST(LineSplitter, StopsWhenTheSinkHasEnough) {
  LineSplitter splitter(100);
  int lines = 0;

  const auto more = splitter.Append("a\nb\nc\n", [&](std::string_view) { return ++lines < 2; });

  ASSERT_TRUE(more.ok());
  EXPECT_FALSE(*more);
  EXPECT_EQ(lines, 2);
}

}  // namespace
}  // namespace ringmaster::http
