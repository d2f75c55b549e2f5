// Tests how KillWatch detects the ends of real processes: children of the test are killed or exit.

#include "worker/agent/process_table/kill_watch.h"

#include <csignal>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/unit/agent/process_table/child.h"
#include "worker/agent/process_table/thread_list.h"
#include "worker/trainer/telemetry/position.h"

namespace ringmaster::agent {
namespace {

using namespace std::chrono_literals;
using Ready = std::function<void()>;

constexpr auto kPatience = 60s;

class KillWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<RankPage> made = RankPage::Make();
    ASSERT_TRUE(made.ok()) << made.error().message;
    page = std::make_shared<const RankPage>(*std::move(made));
  }

  // Starts a rank that reports its position and sleeps.
  std::unique_ptr<const Child> Rank() const {
    return std::make_unique<const Child>([this](const Ready& ready) {
      trainer::Position position;
      if (!position.Open(page->Path()).ok()) _exit(1);
      ready();
      while (true) pause();
    });
  }
  std::unique_ptr<KillWatch> Watch(pid_t process) {
    return KillWatch::Start(io, page, process, [this] { ++killed; });
  }

  boost::asio::io_context io;
  std::shared_ptr<const RankPage> page;
  int killed = 0;
};

// Waits for the end without reaping the process, so that /proc still shows how it ended.
void AwaitEnd(pid_t process) {
  siginfo_t info{};
  EXPECT_EQ(waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOWAIT), 0);
}

TEST_F(KillWatchTest, NoticesThatARankIsKilled) {
  const auto rank = Rank();
  const auto watch = Watch(rank->pid());
  ASSERT_NE(watch, nullptr);
  const auto work = boost::asio::make_work_guard(io);

  kill(rank->pid(), SIGKILL);
  const auto limit = std::chrono::steady_clock::now() + kPatience;
  while (killed == 0 && std::chrono::steady_clock::now() < limit) io.run_one_for(kPatience);

  EXPECT_EQ(killed, 1);
}

TEST_F(KillWatchTest, IsSilentOnceItIsOver) {
  const auto rank = Rank();
  auto watch = Watch(rank->pid());
  ASSERT_NE(watch, nullptr);

  watch.reset();
  kill(rank->pid(), SIGKILL);
  AwaitEnd(rank->pid());
  io.poll();

  EXPECT_EQ(killed, 0);
}

TEST_F(KillWatchTest, NeedsARankThatNamesAThread) {
  const Child silent([](const Ready& ready) {
    ready();
    while (true) pause();
  });
  EXPECT_EQ(Watch(silent.pid()), nullptr);
  page = nullptr;
  EXPECT_EQ(Watch(silent.pid()), nullptr);
}

// Tests a page that falsely says that the rank's thread has ended.
TEST_F(KillWatchTest, BelievesTheKernelAndNotTheRank) {
  const auto rank = Rank();
  const auto watch = Watch(rank->pid());
  ASSERT_NE(watch, nullptr);
  const int file = open(page->Path().c_str(), O_RDWR | O_CLOEXEC);
  auto* const written = static_cast<control::PositionPage*>(
      mmap(nullptr, sizeof(control::PositionPage), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  const auto work = boost::asio::make_work_guard(io);

  written->owner = 0;  // the watch sees this at its next check
  for (int looks = 0; looks < 20; ++looks) ASSERT_EQ(io.run_one_for(kPatience), 1U);

  EXPECT_EQ(killed, 0);
  munmap(written, sizeof(control::PositionPage));
  close(file);
}

TEST(StatShowsKill, OfAProcessThatSigkillEndsAlone) {
  struct Row {
    const char* name;
    std::function<void()> end;
    bool killed;
  };
  const Row table[] = {{"SIGKILL", [] { raise(SIGKILL); }, true},
                       {"SIGTERM", [] { raise(SIGTERM); }, false},
                       {"exit code 9", [] { _exit(SIGKILL); }, false}};
  for (const Row& row : table) {
    const Child child([&](const Ready& ready) {
      ready();
      row.end();
    });
    AwaitEnd(child.pid());
    EXPECT_EQ(IsBeingKilled(child.pid()), row.killed) << row.name;
  }
  EXPECT_FALSE(IsBeingKilled(getpid()));
}

TEST(StatShowsKill, NothingOfWhatIsNoStat) {
  const std::string fields = " Z 1 1 1 0 -1 4";  // the flags show that the process is exiting
  std::string rest;
  for (int field = 0; field < 42; ++field) rest += " 0";
  EXPECT_TRUE(StatShowsKill("7 (a) b)" + fields + rest + " 9"));
  EXPECT_TRUE(StatShowsKill("7 (a)" + fields + rest + " 137")) << "with a core";
  EXPECT_FALSE(StatShowsKill("7 (a)" + fields + rest + " 15"));
  EXPECT_FALSE(StatShowsKill("7 (a)" + fields + rest));
  EXPECT_FALSE(StatShowsKill("7 (a) R 1 1 1 0 -1 8" + rest + " 9"));
  EXPECT_FALSE(StatShowsKill("7 (a"));
  EXPECT_FALSE(StatShowsKill(""));
}

}  // namespace
}  // namespace ringmaster::agent
