#include "worker/agent/slots/slot_output.h"

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

  // Everything the launcher was sent, as it arrived.
  std::string AtLauncher() const {
    std::string text;
    for (const auto& sent : actions.Told<control::SlotOutput>()) text += sent.data;
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

TEST_F(SlotOutputTest, GoesToTheAttachAsItComesAndToTheLauncherInWholeLines) {
  output.GoTo({Way::kAttach, 7, 1});
  output.Add(false, "half");
  EXPECT_EQ(actions.to_attach[7].size(), 1U);

  output.GoTo({Way::kLauncher, 0, 2});
  output.Add(true, "one\ntw");
  output.Add(true, "o\nthr");

  const auto sent = actions.Told<control::SlotOutput>();
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
    output.Add(true, routine.substr(0, 30));  // as a pipe may cut it
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

  const auto sent = actions.Told<control::SlotOutput>();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].data, "err\n");
  EXPECT_EQ(sent[1].data, "out put\n");
}

TEST_F(SlotOutputTest, ALineEndsWithItsProcessOrWhenItIsTooLong) {
  output.GoTo({Way::kLauncher, 0, 0});
  output.Add(false, "last words");
  output.EndLines();
  EXPECT_EQ(AtLauncher(), "last words\n");

  output.Add(false, std::string(20'000, 'x'));

  EXPECT_EQ(AtLauncher().size(), 11U + 20'001U);
}

TEST_F(SlotOutputTest, TheErrorThatAProcessDidNotEndIsShownAsAnError) {
  output.GoTo({Way::kLauncher, 0, 1});
  output.Add(true, "last words");
  output.EndLines();

  const auto sent = actions.Told<control::SlotOutput>();
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
  const auto sent = actions.Told<control::SlotOutput>();
  ASSERT_EQ(sent.size(), 3U);
  EXPECT_FALSE(sent[0].is_stderr);
  EXPECT_TRUE(sent[1].is_stderr);
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
  EXPECT_THAT(note, HasSubstr("lines are left out"));
  EXPECT_THAT(note, HasSubstr("worker-0"));
  const std::size_t left_out = std::stoul(note.substr(1));
  EXPECT_EQ((text.size() - note.size()) / line.size(), lines - left_out);
  EXPECT_LE(text.size() - note.size(), SlotOutput::kMaxWaitingBytes);
}

TEST_F(SlotOutputTest, ABegunLineGoesWhereTheRestOfItGoes) {
  output.GoTo({Way::kLauncher, 0, 0});
  output.Add(false, "begun ");

  output.GoTo({Way::kLocal, 0, 0});
  output.Add(false, "and ended\n");

  EXPECT_EQ(actions.printed, "[0]begun [0]and ended\n");  // whatever the way
  EXPECT_EQ(AtLauncher(), "");
}

}  // namespace
}  // namespace ringmaster::agent
