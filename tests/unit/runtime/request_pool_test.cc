#include "operator/runtime/request_pool.h"

#include <atomic>
#include <gtest/gtest.h>
#include <latch>
#include <stdexcept>

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

  // Ends only when eight closures run at once.
  pool.RunAll("job", std::vector<std::function<void()>>(8, [&] { all_inside.arrive_and_wait(); }));
}

TEST(RequestPool, TakesTurnsBetweenJobs) {
  RequestPool pool(1);
  std::mutex mutex;
  std::vector<std::string> order;
  std::latch queued(1);
  pool.Post("gate", [&] { queued.wait(); });
  const auto run = [&](const std::string& job) {
    return [&, job] {
      const std::lock_guard lock(mutex);
      order.push_back(job);
    };
  };

  for (int i = 0; i < 4; ++i) pool.Post("big", run("big"));
  for (int i = 0; i < 2; ++i) pool.Post("small", run("small"));
  pool.Post("tiny", run("tiny"));
  std::jthread release([&] { queued.count_down(); });
  pool.RunAll("last", {[] {}});
  pool.RunAll("big", {[] {}});

  EXPECT_EQ(order,
            (std::vector<std::string>{"big", "small", "tiny", "big", "small", "big", "big"}));
}

TEST(RequestPool, LetsAJobThatHadNothingWaitingGoFirst) {
  RequestPool pool(1);
  std::vector<std::string> order;
  std::latch queued(1);
  for (int i = 0; i < 3; ++i) {
    pool.Post("big", [&, i] {
      if (i == 0) queued.wait();
      order.push_back("big");
    });
  }
  // The first of "big" may still be queued, or run: either way "small" waits for it alone.
  pool.Post("small", [&] { order.push_back("small"); });
  queued.count_down();
  pool.RunAll("big", {[] {}});

  EXPECT_EQ(order, (std::vector<std::string>{"big", "small", "big", "big"}));
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
