// Tests position pages and stacks of real processes: children of the test that report positions,
// sleep, are stopped, or do not answer.

#include "worker/agent/process_table/stack_capture.h"

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <latch>
#include <memory>
#include <pthread.h>
#include <string_view>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/patience.h"
#include "tests/unit/agent/process_table/child.h"
#include "worker/trainer/telemetry/position.h"

namespace ringmaster::agent {
namespace {

using namespace std::chrono_literals;
using control::RankPhase;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

[[noreturn]] void SleepForEver() {
  for (;;) pause();
}

// Returns whether all threads of the process sleep, including threads of a sanitizer.
bool AllAsleep(pid_t process) {
  const std::string tasks = "/proc/" + std::to_string(process) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    std::ifstream file(task.path() / "stat");
    std::string stat;
    std::getline(file, stat);
    if (stat.find(") S ") == std::string::npos) return false;
  }
  return true;
}

void WaitUntilAsleep(pid_t process) {
  const auto limit = std::chrono::steady_clock::now() + 60s;
  while (!AllAsleep(process) && std::chrono::steady_clock::now() < limit) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(AllAsleep(process));
}

// Starts a rank with a second thread, called "sleeper". Both threads sleep.
std::unique_ptr<const Child> SleepingRank(const RankPage& page) {
  auto rank = std::make_unique<const Child>([&](const std::function<void()>& ready) {
    trainer::Position position;
    if (!position.Open(page.Path()).ok()) _exit(1);
    std::thread sleeper([&] {
      pthread_setname_np(pthread_self(), "sleeper");
      ready();
      SleepForEver();
    });
    SleepForEver();
  });
  WaitUntilAsleep(rank->pid());
  return rank;
}

struct Captured {
  std::string text;
  std::chrono::milliseconds took{};
};

// Limits that are long enough for threads to answer on a busy machine.
constexpr StackCapture::Limits kPatient{.all = 30s, .thread = 3s, .threads = 64};

Captured Capture(pid_t process, const std::shared_ptr<const RankPage>& page,
                 const StackCapture::Limits& limits = kPatient) {
  boost::asio::io_context io;
  Captured captured;
  const auto begin = std::chrono::steady_clock::now();
  StackCapture::Start(io, process, page, limits, [&](const std::string& text) {
    captured.text = text;
    captured.took = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - begin);
  });
  EXPECT_EQ(captured.text, "") << "never from inside the call";
  io.run_for(60s);
  return captured;
}

std::shared_ptr<const RankPage> MakePage() {
  Result<RankPage> page = RankPage::Make();
  EXPECT_TRUE(page.ok());
  return std::make_shared<const RankPage>(*std::move(page));
}

int Frames(const std::string& text) {
  int count = 0;
  for (std::size_t at = text.find("  #"); at != std::string::npos; at = text.find("  #", at + 1)) {
    ++count;
  }
  return count;
}

TEST(RankPage, ReportsTheRanksPosition) {
  const auto page = MakePage();
  EXPECT_FALSE(page->Read()) << "nobody wrote there";
  const Child rank([&](const std::function<void()>& ready) {
    trainer::Position position;
    if (!position.Open(page->Path()).ok()) _exit(1);
    position.EnterWorld({2, 5});
    position.WaitsFor(3);
    position.Applied(7, 52ms, 31ms);
    position.Enter(RankPhase::kReduce, 2);
    ready();
    SleepForEver();
  });

  const auto reading = page->Read();
  ASSERT_TRUE(reading.has_value());
  EXPECT_EQ(reading->position.epoch, (control::Epoch{2, 5}));
  EXPECT_EQ(reading->position.step, 7);
  EXPECT_EQ(reading->position.phase, RankPhase::kReduce);
  EXPECT_EQ(reading->position.bucket, 2);
  EXPECT_EQ(reading->position.step_micros, 52'000);
  EXPECT_EQ(reading->position.own_micros, 31'000);
  EXPECT_EQ(reading->peer, 3);
  const int64_t now = control::MonotonicNanos();
  EXPECT_GT(reading->position.applied_nanos, now - 60'000'000'000);
  EXPECT_GE(reading->position.moved_nanos, reading->position.applied_nanos);
  EXPECT_LE(reading->position.moved_nanos, now);
}

TEST(RankPage, ReportsTheRanksProgressInANewWorldBeforeItAppliesAStep) {
  const auto page = MakePage();
  const control::CollectiveCounts counts{3, 2, control::CollectiveKind::kAllGather};
  const Child rank([&](const std::function<void()>& ready) {
    trainer::Position position;
    if (!position.Open(page->Path()).ok()) _exit(1);
    position.EnterWorld({2, 5});
    position.ComesTo(control::ConnectStage::kReady);
    position.Counts({.launched = 99, .begun = 98});
    position.Applied(7, 52ms, 31ms);
    position.Enter(RankPhase::kReduce, 2);
    position.EnterWorld({2, 6});
    position.ComesTo(control::ConnectStage::kMake);
    position.Counts(counts);
    ready();
    SleepForEver();
  });
  auto reading = page->Read();
  ASSERT_TRUE(reading.has_value());
  const RankStanding standing{.slot = 0, .rank = 1, .epoch = {2, 6}};

  control::RankPosition said = PositionOf(standing, *reading, control::MonotonicNanos());
  EXPECT_EQ(said.phase, RankPhase::kConnect);
  EXPECT_EQ(said.bucket, static_cast<int>(control::ConnectStage::kMake));
  EXPECT_EQ(said.applied_millis, -1);
  EXPECT_EQ(said.collectives, counts);
  EXPECT_EQ(said.step_micros, 52'000) << "its newest step, of any world";

  reading->position.phase = RankPhase::kReduce;
  reading->position.bucket = 1;
  said = PositionOf(standing, *reading, control::MonotonicNanos());
  EXPECT_EQ(said.bucket, 1);
}

TEST(RankPage, TrustsNoRankToKeepIt) {
  const auto page = MakePage();
  const int file = open(page->Path().c_str(), O_RDWR);
  ASSERT_GE(file, 0);
  EXPECT_NE(ftruncate(file, 0), 0) << "it could be taken away under the agent";
  EXPECT_NE(ftruncate(file, 1 << 30), 0) << "it could eat the worker's memory";
  const std::string noise(control::kPositionFileBytes, '\xee');
  ASSERT_EQ(pwrite(file, noise.data(), noise.size(), 0), static_cast<ssize_t>(noise.size()));
  EXPECT_FALSE(page->Read());
  const std::string text = page->ReadStacks();
  EXPECT_EQ(text, std::string(control::kStackTextBytes, '?'));

  auto words = control::EncodePosition({.epoch = {1, 1}, .step = 3});
  ASSERT_EQ(pwrite(file, words.data(), sizeof words, 0), static_cast<ssize_t>(sizeof words));
  ASSERT_TRUE(page->Read());
  EXPECT_EQ(page->Read()->peer, -1) << "a peer beyond all ranks is none";
  EXPECT_EQ(page->Read()->connect_stage, control::ConnectStage::kBegin);
  EXPECT_EQ(page->Read()->collectives, control::CollectiveCounts{});
  close(file);
}

TEST(RankPage, IsNoneWithoutAFile) {
  const RankPage none;
  EXPECT_EQ(none.Path(), "");
  EXPECT_FALSE(none.Read());
  EXPECT_EQ(none.ReadStacks(), "");
}

TEST(StackCapture, ShowsWhereEachThreadSleeps) {
  const auto page = MakePage();
  const auto rank = SleepingRank(*page);

  const Captured captured = Capture(rank->pid(), page);

  EXPECT_THAT(captured.text, HasSubstr("thread " + std::to_string(rank->pid()) + " "));
  EXPECT_THAT(captured.text, HasSubstr(" sleeper, sleeping"));
  const std::size_t second = captured.text.find(" sleeper,");
  EXPECT_GE(Frames(captured.text.substr(0, second)), 2) << captured.text;
  EXPECT_GE(Frames(captured.text.substr(second)), 2) << captured.text;
  EXPECT_THAT(captured.text, HasSubstr("libc.so.6("));
  EXPECT_TRUE(rank->Lives());
}

TEST(StackCapture, AsksAStoppedProcessNothing) {
  const auto page = MakePage();
  const auto rank = SleepingRank(*page);
  rank->Stop();

  const Captured captured = Capture(rank->pid(), page);

  EXPECT_THAT(captured.text, HasSubstr(", stopped by a signal"));
  EXPECT_THAT(captured.text, HasSubstr(" sleeper, stopped by a signal"));
  EXPECT_EQ(Frames(captured.text), 0);
  EXPECT_LT(captured.took, kPatient.thread);
}

TEST(StackCapture, WaitsNotLongForAThreadThatDoesNotAnswer) {
  const auto page = MakePage();
  const Child rank([&](const std::function<void()>& ready) {
    trainer::Position position;
    if (!position.Open(page->Path()).ok()) _exit(1);
    sigset_t stack;
    sigemptyset(&stack);
    sigaddset(&stack, control::kStackSignal);
    std::latch blocked{1};
    std::thread answers([&] {
      blocked.wait();
      pthread_setname_np(pthread_self(), "answers");
      ready();
      SleepForEver();
    });
    pthread_sigmask(SIG_BLOCK, &stack, nullptr);
    blocked.count_down();
    SleepForEver();
  });
  WaitUntilAsleep(rank.pid());

  const StackCapture::Limits limits{.all = 30s, .thread = 500ms * Patience(), .threads = 64};
  const Captured captured = Capture(rank.pid(), page, limits);

  const std::size_t second = captured.text.find(" answers,");
  ASSERT_NE(second, std::string::npos) << captured.text;
  EXPECT_EQ(Frames(captured.text.substr(0, second)), 0) << captured.text;
  EXPECT_GE(Frames(captured.text.substr(second)), 1) << captured.text;
  EXPECT_GE(captured.took, limits.thread);
  EXPECT_LT(captured.took, limits.all);
}

// The page of a rank that imitates Python: the thread with the signal writes all stacks as text.
int g_page_of_all = -1;

std::unique_ptr<const Child> RankThatWritesAllStacks(const RankPage& page, bool first_answers) {
  auto rank = std::make_unique<const Child>([&](const std::function<void()>& ready) {
    g_page_of_all = open(page.Path().c_str(), O_RDWR);
    const std::int64_t all = control::kAllStacks;
    if (pwrite(g_page_of_all, &all, sizeof all, control::kStackOfWord * sizeof all) < 0) _exit(1);
    if (lseek(g_page_of_all, control::kStackTextAt, SEEK_SET) < 0) _exit(1);
    signal(control::kStackSignal, [](int) {
      constexpr std::string_view kText = "Thread 0x7f (most recent call first):\n  in stuck\n";
      if (write(g_page_of_all, kText.data(), kText.size()) < 0) _exit(1);
    });
    std::thread other(SleepForEver);
    if (!first_answers) {
      sigset_t stack;
      sigemptyset(&stack);
      sigaddset(&stack, control::kStackSignal);
      pthread_sigmask(SIG_BLOCK, &stack, nullptr);
    }
    ready();
    SleepForEver();
  });
  WaitUntilAsleep(rank->pid());
  return rank;
}

TEST(StackCapture, AsksARankOnceThatWritesTheStacksOfAllThreads) {
  const StackCapture::Limits limits{.all = 30s, .thread = 300ms * Patience(), .threads = 64};
  for (const bool first_answers : {true, false}) {
    const auto page = MakePage();
    const auto rank = RankThatWritesAllStacks(*page, first_answers);

    for (int i = 0; i < 2; ++i) {
      const std::string text = Capture(rank->pid(), page, limits).text;

      EXPECT_THAT(text, StartsWith("Thread 0x7f (most recent call first):\n  in stuck\nthread "));
      EXPECT_THAT(text, HasSubstr("thread " + std::to_string(rank->pid()) + " "));
      EXPECT_EQ(text.find("in stuck"), text.rfind("in stuck")) << "that of before is left out";
    }
    EXPECT_TRUE(rank->Lives());
  }
}

TEST(StackCapture, LeavesAProcessAloneThatHasNoHandler) {
  const auto page = MakePage();
  const Child other([](const std::function<void()>& ready) {
    ready();
    SleepForEver();
  });

  const std::string thread = "thread " + std::to_string(other.pid()) + " ";
  EXPECT_THAT(Capture(other.pid(), page).text, HasSubstr(thread));
  EXPECT_THAT(Capture(other.pid(), nullptr).text, HasSubstr(thread));
  EXPECT_TRUE(other.Lives());
}

TEST(StackCapture, ReportsNothingOfAProcessThatHasEnded) {
  pid_t gone = 0;
  {
    const Child child([](const std::function<void()>& ready) {
      ready();
      SleepForEver();
    });
    gone = child.pid();
  }
  EXPECT_EQ(Capture(gone, MakePage()).text, "");
}

TEST(StackCapture, ShowsTheFirstOfManyThreads) {
  const auto page = MakePage();
  const auto rank = SleepingRank(*page);

  const Captured captured =
      Capture(rank->pid(), page, {.all = 500ms, .thread = 100ms, .threads = 1});

  EXPECT_THAT(captured.text, HasSubstr(" more threads"));
  EXPECT_THAT(captured.text, Not(HasSubstr("sleeper")));
}

}  // namespace
}  // namespace ringmaster::agent
