#include "operator/runtime/request_pool.h"

#include <atomic>
#include <latch>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

namespace ringmaster::runtime {
namespace {

TEST(RequestPool, RunsEveryClosureAndThenReturns) {
  RequestPool pool(4);
  std::vector<int> results(1000, 0);
  std::vector<std::function<void()>> closures;
  for (int& result : results) closures.emplace_back([&result] { ++result; });

  pool.RunAll("job", std::move(closures));

  EXPECT_EQ(results, std::vector<int>(1000, 1));
}

TEST(RequestPool, UsesAllThreadsForOneJob) {
  RequestPool pool(8);
  std::latch all_inside(8);

  // These closures end only when eight of them run at once.
  std::vector<std::function<void()>> closures(9, [&] { all_inside.arrive_and_wait(); });
  closures.front() = [] {};
  pool.RunAll("job", std::move(closures));
}

TEST(RequestPool, TheCallerRunsAFirstRequestThatNeedNotWait) {
  RequestPool pool(1);
  std::thread::id first;
  std::thread::id second;

  pool.RunAll("job", {[&] { first = std::this_thread::get_id(); },
                      [&] { second = std::this_thread::get_id(); }});

  EXPECT_EQ(first, std::this_thread::get_id());
  EXPECT_NE(second, first);
}

TEST(RequestPool, AJobsOtherRequestsWaitForTheEndOfItsFirst) {
  RequestPool pool(2);
  std::atomic<bool> first_ended = false;
  std::atomic<int> early{0};
  std::vector<std::function<void()>> closures(9, [&] { early += first_ended ? 0 : 1; });
  // During the first request, run many requests of another job. If this job's other requests were
  // queued already, some would run between those of the other job.
  closures.front() = [&] {
    std::jthread([&] {
      pool.RunAll("other", std::vector<std::function<void()>>(33, [] {}));
    }).join();
    first_ended = true;
  };

  pool.RunAll("job", std::move(closures));

  EXPECT_EQ(early, 0);
}

// Makes closures that block until Open(). AwaitInside() waits until `count` closures are running.
class Gate {
 public:
  std::function<void()> Closure() {
    return [this] {
      ++inside_;
      inside_.notify_all();
      open_.wait();
    };
  }
  void AwaitInside(int count) {
    for (int seen = inside_; seen < count; seen = inside_) inside_.wait(seen);
  }
  void Open() { open_.count_down(); }

 private:
  std::atomic<int> inside_{0};
  std::latch open_{1};
};

TEST(RequestPool, StartsANewJobWhileAnotherHasEverythingInFlightThatItMay) {
  RequestPool pool(2);
  Gate gate;
  std::vector<std::function<void()>> closures(5, gate.Closure());
  closures.front() = [] {};
  std::jthread big([&] { pool.RunAll("big", std::move(closures)); });
  gate.AwaitInside(2);

  pool.RunAll("small", {[] {}});  // must return

  gate.Open();
}

TEST(RequestPool, KeepsAJobGoingWhileOthersStart) {
  RequestPool pool(1);
  Gate gate;
  std::latch begun(1);
  std::latch last(1);
  std::jthread job([&] {
    pool.RunAll("job", {[] {},
                        [&] {
                          begun.count_down();
                          gate.AwaitInside(1);
                        },
                        [&] { last.count_down(); }});
  });
  begun.wait();
  // The request of job `newcomer` occupies the only thread that runs first requests.
  std::jthread newcomer([&] { pool.RunAll("newcomer", {gate.Closure()}); });

  last.wait();

  gate.Open();
}

// Tests the order in which requests of jobs run after they have waited for another request to end.
class TurnsTest : public ::testing::Test {
 protected:
  TurnsTest() { gate_.AwaitInside(1); }

  // Adds a job with a first request and `turns` other requests.
  void Add(const std::string& job, int turns) {
    std::latch first(1);
    std::vector<std::function<void()>> closures(static_cast<std::size_t>(turns + 1),
                                                [this, job] { order_.push_back(job); });
    closures.front() = [&first] { first.count_down(); };
    jobs_.emplace_back([this, job, closures] { pool_.RunAll(job, closures); });
    first.wait();
  }

  std::vector<std::string> Order() {
    // First requests run one at a time, so all earlier ones have ended when this one ends.
    pool_.RunAll("witness", {[] {}});
    gate_.Open();
    jobs_.clear();
    return order_;
  }

 private:
  RequestPool pool_{1};
  Gate gate_;
  std::jthread blocker_{[this] { pool_.RunAll("blocker", {[] {}, gate_.Closure()}); }};
  std::vector<std::string> order_;
  std::vector<std::jthread> jobs_;
};

// The request that blocks the pool takes the first turn, so Order() starts with the second turn.
TEST_F(TurnsTest, EverySecondOneIsThatOfWhoWaitedLongest) {
  Add("big", 5);
  for (const char* job : {"a", "b", "c"}) Add(job, 1);

  EXPECT_EQ(Order(), (std::vector<std::string>{"big", "big", "big", "a", "big", "b", "big", "c"}));
}

TEST_F(TurnsTest, TheOthersTakeThemInTheirOrder) {
  Add("old", 1);
  Add("big", 4);
  Add("small", 2);

  EXPECT_EQ(Order(),
            (std::vector<std::string>{"old", "big", "big", "small", "big", "big", "small"}));
}

TEST(RequestPool, CountsAThrowingClosureAsEnded) {
  RequestPool pool(2);
  std::atomic<int> good{0};

  pool.RunAll("job", {[] { throw std::runtime_error("bug"); }, [&] { ++good; }});

  EXPECT_EQ(good, 1);
}

TEST(RequestPool, ReturnsAtOnceForNothing) {
  RequestPool pool(1);

  pool.RunAll("job", {});

  EXPECT_EQ(pool.queued(), 0u);
}

TEST(RequestPool, RunsWhatIsQueuedBeforeItEnds) {
  std::atomic<int> ran{0};
  {
    RequestPool pool(2);
    for (int i = 0; i < 100; ++i) pool.Post("job", [&] { ++ran; });
  }

  EXPECT_EQ(ran, 100);
}

}  // namespace
}  // namespace ringmaster::runtime
