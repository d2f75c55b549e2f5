// Tests the process of a rank of an elastic job, with sleeping_rank.cc as the program.

#include "worker/agent/process_table/rank_processes.h"

#include <algorithm>
#include <csignal>
#include <pthread.h>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/paths.h"

namespace ringmaster::agent {
namespace {

using testing::ElementsAre;

constexpr std::chrono::seconds kLimit{60};

class RankProcessesTest : public testing::Test {
 protected:
  RankProcessesTest() { config.spec.command = {FromBuild(SLEEPING_RANK)}; }

  template <typename Condition>
  bool RunUntil(const Condition& condition) {
    const auto limit = std::chrono::steady_clock::now() + kLimit;
    while (!condition() && std::chrono::steady_clock::now() < limit) io.run_one_for(kLimit);
    return condition();
  }

  boost::asio::io_context io;
  ChildReaper reaper{io};
  Config config;
  std::string printed;
  std::vector<std::string> said;
  RankProcesses ranks{
      io,
      reaper,
      config,
      {.on_output = [this](int, bool, std::string_view data) { printed += data; },
       .on_killed =
           [this](int slot, const std::vector<std::string>& last_lines) {
             said.push_back("killed " + std::to_string(slot) + " after " + last_lines.back());
           },
       .on_end =
           [this](int slot, const RankEnd& end) {
             said.push_back("ended " + std::to_string(slot) + " by signal " +
                            std::to_string(end.end.signal));
           },
       .on_due = {}}};
};

void SetChildSignalBlocked(bool blocked) {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  pthread_sigmask(blocked ? SIG_BLOCK : SIG_UNBLOCK, &child, nullptr);
}

// Blocks SIGCHLD to delay the end of the process, as if freeing its memory took long.
TEST_F(RankProcessesTest, AKilledRankIsReportedBeforeItHasEnded) {
  SetChildSignalBlocked(true);
  ASSERT_TRUE(ranks.Start(1).ok());
  ASSERT_TRUE(RunUntil([&] { return printed == "sleeping\n"; })) << printed;
  ranks.SetRank(1, ranks.Group(1));
  io.poll();

  kill(ranks.Group(1), SIGKILL);
  EXPECT_TRUE(RunUntil([&] { return !said.empty(); }));
  SetChildSignalBlocked(false);
  EXPECT_TRUE(RunUntil([&] { return said.size() > 1; }));

  EXPECT_THAT(said, ElementsAre("killed 1 after sleeping", "ended 1 by signal 9"));
}

TEST_F(RankProcessesTest, OfARankBehindAWrapperTheWrappersEndCounts) {
  config.spec.command = {"sh", "-c", FromBuild(SLEEPING_RANK) + " & echo $!; wait"};
  ASSERT_TRUE(ranks.Start(0).ok());
  ASSERT_TRUE(RunUntil([&] { return std::ranges::count(printed, '\n') == 2; })) << printed;
  const pid_t rank = std::stoi(printed.substr(printed.find_first_of("0123456789")));
  ranks.SetRank(0, rank);

  kill(rank, SIGKILL);
  EXPECT_TRUE(RunUntil([&] { return !said.empty(); }));

  EXPECT_THAT(said, ElementsAre("ended 0 by signal 0"));
}

TEST_F(RankProcessesTest, ProcessesThatAProgramLeftBehindEndWithTheLastSlotsProgram) {
  config.spec.in_place = false;
  config.spec.command = {
      "sh", "-c", "(setsid sleep 1000 >/dev/null 2>&1 & echo $!); exec sleep 1000 >/dev/null 2>&1"};
  std::vector<pid_t> helpers;
  for (const int slot : {0, 1}) {
    printed.clear();
    ASSERT_TRUE(ranks.Start(slot).ok());
    ASSERT_TRUE(RunUntil([&] { return printed.ends_with('\n'); }));
    helpers.push_back(std::stoi(printed));
  }

  kill(ranks.Group(1), SIGKILL);
  ASSERT_TRUE(RunUntil([&] { return said.size() == 1; }));
  EXPECT_EQ(kill(helpers[0], 0), 0) << "slot 0's program still runs and may need it";

  kill(ranks.Group(0), SIGKILL);
  ASSERT_TRUE(RunUntil([&] { return said.size() == 2; }));
  for (const pid_t helper : helpers) EXPECT_EQ(kill(helper, 0), -1) << helper;
}

}  // namespace
}  // namespace ringmaster::agent
