#include "common/process/newest_traceback.h"

#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/process/last_lines.h"

namespace ringmaster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

NewestTraceback Of(const std::string& text) {
  NewestTraceback traceback;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) traceback.Take(line);
  return traceback;
}

TEST(NewestTraceback, KeepsAPythonExceptionAndItsInnermostFrames) {
  const NewestTraceback traceback = Of(R"(step 1
Traceback (most recent call last):
  File "/app/train.py", line 40, in <module>
    main()
    ~~~~^^
  File "/app/train.py", line 30, in main
    train(model)
  File "/app/train.py", line 20, in train
    loss = model(batch)
  File "/app/model.py", line 7, in forward
    return self.w @ x
           ~~~~~~~^~~
RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)
the launcher ends
)");

  EXPECT_THAT(traceback.lines(),
              ElementsAre("  File \"/app/train.py\", line 30, in main", "    train(model)",
                          "  File \"/app/train.py\", line 20, in train", "    loss = model(batch)",
                          "  File \"/app/model.py\", line 7, in forward", "    return self.w @ x",
                          "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"));
  EXPECT_EQ(traceback.lines_since(), 1U);
}

TEST(NewestTraceback, ALaterOneOfTheSameStreamReplacesIt) {
  EXPECT_THAT(Of("Traceback (most recent call last):\n  File \"a\"\nKeyError: 'x'\n"
                 "During handling of the above exception, another exception occurred:\n"
                 "Traceback (most recent call last):\n  File \"b\"\nValueError: y\n")
                  .lines(),
              ElementsAre("Traceback (most recent call last):", "  File \"b\"", "ValueError: y"));
}

// Ranks that lose a failed rank print tracebacks, too. The failed rank's traceback must be kept.
TEST(NewestTraceback, IsNotReplacedByAnotherRanksThatFollowsAtOnce) {
  const std::string first =
      "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"a\"\n"
      "[rank1]: ValueError: the cause\n";
  const std::string second =
      "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"b\"\n"
      "[rank0]: RuntimeError: Connection closed by peer\n";
  std::string steps;
  for (int step = 0; step < 60; ++step) steps += "step " + std::to_string(step) + "\n";

  EXPECT_THAT(Of(first + second).lines().back(), HasSubstr("the cause"));
  EXPECT_THAT(Of(first + steps + second).lines().back(), HasSubstr("Connection closed"));
}

TEST(NewestTraceback, LinesOfAnotherRankDoNotEndIt) {
  EXPECT_THAT(Of("[rank1]: Traceback (most recent call last):\n[rank0]: step 3\n"
                 "[rank1]:   File \"a\"\n[rank1]: ValueError: x\n")
                  .lines(),
              ElementsAre("[rank1]: Traceback (most recent call last):", "[rank1]:   File \"a\"",
                          "[rank1]: ValueError: x"));
}

TEST(NewestTraceback, KeepsTheBeginningOfOtherStackTraces) {
  std::string frames;
  for (int frame = 0; frame < 20; ++frame) frames += "    @ 0x" + std::to_string(frame) + "\n";

  const auto glog =
      Of("F1126 10:20:30.123456 77 a.cc:12] Check failed: x > 0\n"
         "*** Check failure stack trace: ***\n" +
         frames);
  ASSERT_EQ(glog.lines().size(), NewestTraceback::kMaxLines);
  EXPECT_THAT(glog.lines().front(), HasSubstr("Check failed"));
  EXPECT_EQ(glog.lines_since(), 15U);

  EXPECT_THAT(Of("thread 'main' (12) panicked at src/main.rs:2:5:\nexplicit panic\n").lines(),
              ElementsAre("thread 'main' (12) panicked at src/main.rs:2:5:", "explicit panic"));
  EXPECT_THAT(Of("[rank0]: terminate called after throwing an instance of 'c10::Error'\n"
                 "[rank0]:   what():  no device\n")
                  .lines()
                  .size(),
              2U);
}

TEST(NewestTraceback, IsForgottenOnceTheProgramContinues) {
  NewestTraceback traceback = Of("Traceback (most recent call last):\n  File \"a\"\nKeyError: x\n");
  for (std::size_t line = 0; line < NewestTraceback::kForgottenAfter; ++line) traceback.Take("on");
  EXPECT_EQ(traceback.lines().size(), 3U);
  traceback.Take("on");
  EXPECT_THAT(traceback.lines(), IsEmpty());
}

TEST(NewestTraceback, IgnoresOrdinaryLines) {
  EXPECT_THAT(Of("F\nF1 10:20:30 x\nFabc1 10:20\nFor all 5 steps: 1\n[1/5]: done\n[x\n"
                 "threads panicked at noon\n")
                  .lines(),
              IsEmpty());
}

TEST(NewestTraceback, LastLinesKeepItBeforeTheLinesThatFollowedIt) {
  LastLines lines;
  lines.Append(true, "Traceback (most recent call last):\n  File \"a\"\nValueError: the cause\n");
  for (int line = 0; line < 7; ++line) lines.Append(true, "after " + std::to_string(line) + "\n");
  EXPECT_EQ(lines.Lines().front(), "Traceback (most recent call last):");
  ASSERT_EQ(lines.Lines().size(), LastLines::kMaxLines);

  for (int line = 7; line < 90; ++line) lines.Append(true, "after " + std::to_string(line) + "\n");
  lines.Append(true, "and the rest");

  const auto kept = lines.Lines();
  ASSERT_EQ(kept.size(), LastLines::kMaxLines);
  EXPECT_EQ(kept[2], "ValueError: the cause");
  EXPECT_EQ(kept[3], "after 84");
  EXPECT_EQ(kept.back(), "and the rest");
}

}  // namespace
}  // namespace ringmaster
