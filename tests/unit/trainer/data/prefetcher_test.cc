#include "worker/trainer/data/prefetcher.h"

#include <latch>
#include <mutex>
#include <set>
#include <stdexcept>

#include <gtest/gtest.h>

namespace ringmaster::trainer {
namespace {

struct Numbers {
  std::vector<int64_t> values;
};

void Fill(int64_t step, Share share, Numbers& batch) {
  batch.values.clear();
  for (int64_t i = share.begin; i < share.end; ++i) batch.values.push_back(100 * step + i);
}

TEST(Prefetcher, GivesEveryStepItsBatchWithAnyNumberOfThreads) {
  for (const int threads : {0, 1, 3}) {
    Prefetcher<Numbers> prefetcher(Fill, threads);
    for (int64_t step = 0; step < 50; ++step) {
      // At step 20, the world changes, and with it the rank's share.
      const Share share = step < 20 ? Share{0, 4} : Share{2, 4};
      ASSERT_EQ(prefetcher.Take(step, share).values.front(), 100 * step + share.begin) << threads;
      ASSERT_EQ(std::ssize(prefetcher.Take(step, share).values), share.size());  // again
    }
  }
}

TEST(Prefetcher, GivesMicroBatchesInTheOrderOfTheStepsThatFollow) {
  for (const int threads : {0, 1, 3}) {
    std::mutex mutex;
    std::multiset<std::pair<int64_t, int64_t>> assembled;
    {
      Prefetcher<Numbers> prefetcher(
          [&](int64_t step, Share samples, Numbers& batch) {
            Fill(step, samples, batch);
            const std::lock_guard lock(mutex);
            assembled.emplace(step, samples.begin);
          },
          threads);
      const MicroBatches parts(Share{1, 9}, 3);
      for (int64_t step = 0; step < 20; ++step) {
        for (int64_t index = 0; index < parts.count(); ++index) {
          const Numbers& batch = prefetcher.Take(step, parts, index);
          ASSERT_EQ(batch.values.front(), 100 * step + parts.at(index).begin) << threads;
          ASSERT_EQ(std::ssize(batch.values), parts.at(index).size());
        }
      }
    }
    const std::lock_guard lock(mutex);
    for (int64_t step = 0; step < 20; ++step) {
      EXPECT_EQ(assembled.count({step, 4}), 1U) << "what was expected was taken";
    }
  }
}

TEST(Prefetcher, AssemblesAhead) {
  std::latch third(1);
  Prefetcher<Numbers> prefetcher(
      [&](int64_t step, Share share, Numbers& batch) {
        Fill(step, share, batch);
        if (step == 2) third.count_down();
      },
      1);

  prefetcher.Take(0, Share{0, 2});

  third.wait();  // the test did not request the third step
}

TEST(Prefetcher, ReusesMemory) {
  struct Counted {
    std::vector<int64_t> values;
  };
  std::mutex mutex;
  std::set<const Counted*> seen;
  Prefetcher<Counted> prefetcher(
      [&](int64_t step, Share, Counted& batch) {
        batch.values.assign(8, step);
        const std::lock_guard lock(mutex);
        seen.insert(&batch);
      },
      2);

  for (int64_t step = 0; step < 200; ++step) {
    ASSERT_EQ(prefetcher.Take(step, Share{0, 8}).values.front(), step);
  }

  EXPECT_LE(seen.size(), 7U) << "two threads, four ahead, one in use";
}

TEST(Prefetcher, TheCallerGetsWhatAssemblingThrew) {
  for (const int threads : {0, 1}) {
    Prefetcher<Numbers> prefetcher(
        [](int64_t step, Share share, Numbers& batch) {
          if (step == 1) throw std::runtime_error("no such sample");
          Fill(step, share, batch);
        },
        threads);

    prefetcher.Take(0, Share{0, 1});
    EXPECT_THROW(prefetcher.Take(1, Share{0, 1}), std::runtime_error);
    EXPECT_EQ(prefetcher.Take(2, Share{0, 1}).values.front(), 200);
  }
}

}  // namespace
}  // namespace ringmaster::trainer
