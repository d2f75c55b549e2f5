#include "worker/agent/slots/slot_output.h"

#include <array>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/agent/slots/fake_slot_actions.h"

namespace ringmaster::agent {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class SlotOutputTest : public testing::Test {
 protected:
  using Way = SlotOutput::Way;

  // Returns all output that was sent to the launcher, in order.
  std::string AtLauncher() const {
    std::string text;
    for (const auto& sent : actions.Sent<control::SlotOutput>()) text += sent.data;
    return text;
  }

  FakeSlotActions actions;
  SlotOutput output{3, "worker-0", &actions};
};

TEST_F(SlotOutputTest, WaitsUntilItIsKnownWhoseItIs) {
  output.Add(false, "loading\n");
  EXPECT_THAT(actions.to_launcher, IsEmpty());

  output.GoTo({Way::kAttach, 7, 1});

  ASSERT_EQ(actions.to_attach[7].size(), 1U);
  EXPECT_EQ(std::get<control::RankOutput>(actions.to_attach[7][0]).data, "loading\n");
}

TEST_F(SlotOutputTest, IsSentToTheAttachAtOnceAndToTheLauncherInWholeLines) {
  output.GoTo({Way::kAttach, 7, 1});
  output.Add(false, "half");
  EXPECT_EQ(actions.to_attach[7].size(), 1U);

  output.GoTo({Way::kLauncher, 0, 2});
  output.Add(true, "one\ntw");
  output.Add(true, "o\nthr");

  const auto sent = actions.Sent<control::SlotOutput>();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].data, "one\n");
  EXPECT_EQ(sent[1].data, "two\n");
  EXPECT_EQ(sent[1].slot, 3);
  EXPECT_EQ(sent[1].rank, 2);
  EXPECT_TRUE(sent[1].is_stderr);
}

TEST_F(SlotOutputTest, TheWorkersLogHasAllAndTheJobsWhatConcernsIt) {
  const std::string stamp = "2026-11-24T09:11:07.123Z ";
  const std::string routine = stamp + "info ringmaster-train Entered a world rank=1\n";
  const std::string warning = stamp + "warning ringmaster-train Left a world\n";
  for (const int rank : {1, 0}) {
    output.GoTo({Way::kAttach, 7, rank});
    output.Add(true, routine.substr(0, 30));  // split, as by a pipe
    output.Add(true, routine.substr(30) + warning);
    output.Add(true, "terminate called\n");
    output.Add(false, "{}\n");
  }

  std::string shown;
  for (const auto& message : actions.to_attach[7]) {
    shown += std::get<control::RankOutput>(message).data;
  }
  const std::string unusual = warning + "terminate called\n{}\n";
  EXPECT_EQ(shown, unusual + routine + unusual);
  EXPECT_EQ(actions.printed.find(routine.substr(0, 30)), 3U);
}

TEST_F(SlotOutputTest, KeepsTheStreamsApart) {
  output.GoTo({Way::kLauncher, 0, 0});
  output.Add(false, "out ");
  output.Add(true, "err\n");
  output.Add(false, "put\n");

  const auto sent = actions.Sent<control::SlotOutput>();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].data, "err\n");
  EXPECT_EQ(sent[1].data, "out put\n");
}

TEST_F(SlotOutputTest, ALineEndsWithItsProcessOrWhenItIsTooLong) {
  output.GoTo({Way::kLauncher, 0, 0});
  output.Add(false, "last words");
  output.EndLines();
  EXPECT_EQ(AtLauncher(), "last words\n");
  output.EndLines();
  EXPECT_EQ(AtLauncher(), "last words\n") << "it has ended";

  output.Add(false, std::string(20'000, 'x'));

  EXPECT_EQ(AtLauncher().size(), 11U + 20'001U);
}

TEST_F(SlotOutputTest, ALineOfSixteenKibibytesIsWholeAndALongerOneIsCut) {
  for (const bool is_stderr : {false, true}) {
    FakeSlotActions recorded;
    SlotOutput long_lines{3, "worker-0", &recorded};
    long_lines.GoTo({Way::kLauncher, 0, 1});
    long_lines.Add(is_stderr, std::string(16384, 'x'));
    EXPECT_THAT(recorded.to_launcher, IsEmpty()) << is_stderr;

    long_lines.Add(is_stderr, "x");

    EXPECT_THAT(recorded.to_launcher, testing::SizeIs(1)) << is_stderr;
  }
}

TEST_F(SlotOutputTest, AnAttachGetsNoEndOfALineThatHadNone) {
  output.GoTo({Way::kAttach, 7, 1});
  output.Add(false, "half");
  output.EndLines();

  EXPECT_EQ(actions.to_attach[7].size(), 1U);
  EXPECT_EQ(actions.printed, "[1]half[1]\n");
}

TEST_F(SlotOutputTest, WaitingOutputIsSentInPiecesOfSixteenKibibytes) {
  for (int i = 0; i < 4; ++i) output.Add(false, std::string(8192, 'x'));

  output.GoTo({Way::kAttach, 7, 1});

  std::vector<std::size_t> sizes;
  for (const auto& message : actions.to_attach[7]) {
    sizes.push_back(std::get<control::RankOutput>(message).data.size());
  }
  EXPECT_EQ(sizes, (std::vector<std::size_t>{16384, 16384}));
}

TEST_F(SlotOutputTest, TheErrorThatAProcessDidNotEndIsShownAsAnError) {
  output.GoTo({Way::kLauncher, 0, 1});
  output.Add(true, "last words");
  output.EndLines();

  const auto sent = actions.Sent<control::SlotOutput>();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_TRUE(sent[0].is_stderr);
  EXPECT_EQ(sent[0].data, "last words\n");
}

TEST_F(SlotOutputTest, WaitsForTheLauncherInOrder) {
  actions.launcher_takes_output = false;
  output.GoTo({Way::kLauncher, 0, 0});
  output.Add(false, "one\n");
  output.Add(true, "two\n");
  output.Add(false, "three\n");
  EXPECT_THAT(actions.to_launcher, IsEmpty());

  actions.launcher_takes_output = true;
  output.GoTo({Way::kLauncher, 0, 0});

  EXPECT_EQ(AtLauncher(), "one\ntwo\nthree\n");
  const auto sent = actions.Sent<control::SlotOutput>();
  ASSERT_EQ(sent.size(), 3U);
  EXPECT_FALSE(sent[0].is_stderr);
  EXPECT_TRUE(sent[1].is_stderr);
}

// The job may end with the process, so the last output must be sent before the end is reported.
TEST_F(SlotOutputTest, TheLauncherGetsWhatAProcessPrintedLastBeforeItsEnd) {
  output.GoTo({.way = Way::kLauncher, .rank = 0});
  actions.launcher_takes_output = false;
  output.Add(false, "accuracy 0.97\nthe end");
  EXPECT_EQ(AtLauncher(), "");

  output.EndLines();

  EXPECT_EQ(AtLauncher(), "accuracy 0.97\nthe end\n");
  output.Add(false, "of another process\n");
  EXPECT_EQ(AtLauncher(), "accuracy 0.97\nthe end\n") << "it waits again";
  actions.launcher_listens = false;
  output.EndLines();
  EXPECT_EQ(AtLauncher(), "accuracy 0.97\nthe end\n") << "nobody is there";
}

TEST_F(SlotOutputTest, WhatIsTooMuchStaysHereAndIsCounted) {
  actions.launcher_takes_output = false;
  output.GoTo({Way::kLauncher, 0, 5});
  const std::string line = std::string(1023, 'x') + '\n';
  const std::size_t lines = 2 * SlotOutput::kMaxWaitingBytes / line.size();
  for (std::size_t count = 0; count < lines; ++count) output.Add(false, line);
  EXPECT_GE(actions.printed.size(), lines * line.size());

  actions.launcher_takes_output = true;
  output.GoTo({Way::kLauncher, 0, 5});

  const std::string text = AtLauncher();
  const std::string note = text.substr(0, text.find('\n') + 1);
  EXPECT_THAT(note, HasSubstr(" lines omitted"));
  EXPECT_THAT(note, HasSubstr("worker-0"));
  const std::size_t left_out = std::stoul(note.substr(1));
  EXPECT_EQ((text.size() - note.size()) / line.size(), lines - left_out);
  EXPECT_LE(text.size() - note.size(), SlotOutput::kMaxWaitingBytes);
}

TEST_F(SlotOutputTest, OneLineTooManyIsCountedAndNotOneBefore) {
  for (const bool one_more : {false, true}) {
    FakeSlotActions recorded;
    SlotOutput waits{3, "worker-0", &recorded};
    const std::string line = std::string(16383, 'x') + '\n';
    for (std::size_t bytes = 0; bytes < SlotOutput::kMaxWaitingBytes; bytes += line.size()) {
      waits.Add(false, line);
    }
    if (one_more) waits.Add(false, line);

    waits.GoTo({Way::kLauncher, 0, 5});

    const auto sent = recorded.Sent<control::SlotOutput>();
    EXPECT_EQ(sent.size(), SlotOutput::kMaxWaitingBytes / line.size() + (one_more ? 1 : 0));
    EXPECT_EQ(sent.at(0).data.starts_with("(1 line omitted because"), one_more);
    EXPECT_EQ(sent.at(0).is_stderr, one_more) << "the program printed nothing of it itself";
  }
}

TEST_F(SlotOutputTest, AnIncompleteLineHasTheDestinationOfItsRest) {
  for (const Way way : {Way::kLocal, Way::kAttach}) {
    FakeSlotActions recorded;
    SlotOutput begins{3, "worker-0", &recorded};
    begins.GoTo({Way::kLauncher, 0, 0});
    begins.Add(false, "begun ");
    begins.Add(true, "so is this ");

    begins.GoTo({way, 7, 0});
    begins.Add(true, "error\n");
    begins.Add(false, "and ended\n");

    EXPECT_EQ(recorded.printed, "[0]begun [0]so is this [0]error\n[0]and ended\n")
        << "whatever the way";
    EXPECT_THAT(recorded.Sent<control::SlotOutput>(), IsEmpty());
    std::array<std::string, 2> attach;
    for (const auto& message : recorded.to_attach[7]) {
      const auto& sent = std::get<control::RankOutput>(message);
      attach[sent.is_stderr ? 1 : 0] += sent.data;
    }
    EXPECT_EQ(attach[0], way == Way::kAttach ? "begun and ended\n" : "");
    EXPECT_EQ(attach[1], way == Way::kAttach ? "so is this error\n" : "");
  }
}

}  // namespace
}  // namespace ringmaster::agent
