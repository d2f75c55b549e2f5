#pragma once

// Assembles the batches of the next steps on separate threads while the current step is trained.
// Used by workloads, which define the type of a batch and how it is assembled. A batch contains a
// micro-batch of a step. The batches' memory is reused for later batches.

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "worker/trainer/data/data_order.h"

namespace ringmaster::trainer {

// Not thread-safe.
template <typename Batch>
class Prefetcher {
 public:
  // Fills `batch`, which may have been used before, with these samples of a step. The result must
  // depend only on the arguments. Called on any thread, also on several threads at once.
  using Assemble = std::function<void(int64_t step, Share samples, Batch& batch)>;

  // Prepares 2 * `threads` batches ahead. Without threads, Take() assembles the batch itself.
  Prefetcher(Assemble assemble, int threads) : assemble_(std::move(assemble)), ahead_(2 * threads) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this](const std::stop_token& stop) { Serve(stop); });
    }
  }
  ~Prefetcher() {
    for (std::jthread& thread : threads_) thread.request_stop();
    changed_.NotifyAll();
  }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Returns micro-batch `index` of the rank's share of a step, valid until the next call. Threads
  // then prepare the following micro-batches and those of the next step. A call for another
  // micro-batch, as in a new world, discards the prepared ones. Rethrows exceptions of Assemble.
  Batch& Take(int64_t step, const MicroBatches& parts, int64_t index = 0) {
    const Place place{step, index, parts};
    MutexLock lock(mutex_);
    Recycle(std::exchange(current_, nullptr));
    while (!queue_.empty() && !queue_.front()->place.Is(place)) {
      Recycle(std::move(queue_.front()));
      queue_.pop_front();
    }
    if (queue_.empty()) queue_.push_back(NewJob(place));
    current_ = std::move(queue_.front());
    queue_.pop_front();
    while (std::ssize(queue_) < ahead_) {
      queue_.push_back(NewJob((queue_.empty() ? place : queue_.back()->place).Next()));
    }
    changed_.NotifyAll();
    const std::shared_ptr<Job> job = current_;
    if (job->state == State::kWaiting) {
      Run(*job);
    } else {
      changed_.Wait(mutex_,
                    [&]() RINGMASTER_REQUIRES(mutex_) { return job->state == State::kDone; });
    }
    if (job->failure) std::rethrow_exception(job->failure);
    return *job->batch;
  }

 private:
  enum class State { kWaiting, kRunning, kDone };
  struct Place {
    int64_t step = 0;
    int64_t index = 0;
    MicroBatches parts;

    Share samples() const { return parts.at(index); }
    Place Next() const {
      if (index + 1 < parts.count()) return {step, index + 1, parts};
      return {step + 1, 0, parts};
    }
    bool Is(const Place& other) const {
      return step == other.step && samples().begin == other.samples().begin &&
             samples().end == other.samples().end;
    }
  };
  struct Job {
    Place place;
    State state = State::kWaiting;
    std::unique_ptr<Batch> batch;
    std::exception_ptr failure;
  };

  std::shared_ptr<Job> NewJob(const Place& place) RINGMASTER_REQUIRES(mutex_) {
    auto job = std::make_shared<Job>(Job{.place = place, .batch = {}, .failure = {}});
    if (spare_.empty()) {
      job->batch = std::make_unique<Batch>();
    } else {
      job->batch = std::move(spare_.back());
      spare_.pop_back();
    }
    return job;
  }

  // Keeps the memory of the job's batch for reuse, unless a thread still fills the batch.
  void Recycle(std::shared_ptr<Job> job) RINGMASTER_REQUIRES(mutex_) {
    if (job != nullptr && job->state != State::kRunning) spare_.push_back(std::move(job->batch));
  }

  void Run(Job& job) RINGMASTER_REQUIRES(mutex_) {
    job.state = State::kRunning;
    std::exception_ptr failure;
    {
      const MutexUnlock unlocked(mutex_);
      try {
        assemble_(job.place.step, job.place.samples(), *job.batch);
      } catch (...) {
        failure = std::current_exception();
      }
    }
    job.failure = failure;
    job.state = State::kDone;
    changed_.NotifyAll();
  }

  void Serve(const std::stop_token& stop) {
    MutexLock lock(mutex_);
    for (;;) {
      std::shared_ptr<Job> next;
      changed_.Wait(mutex_, stop, [&]() RINGMASTER_REQUIRES(mutex_) {
        for (const std::shared_ptr<Job>& job : queue_) {
          if (job->state != State::kWaiting) continue;
          next = job;
          return true;
        }
        return false;
      });
      if (stop.stop_requested()) return;
      Run(*next);
    }
  }

  const Assemble assemble_;
  const std::ptrdiff_t ahead_;

  Mutex mutex_;
  StoppableCondVar changed_;
  std::shared_ptr<Job> current_ RINGMASTER_GUARDED_BY(mutex_);  // in use by the caller
  // The batches that follow `current_`, in order.
  std::deque<std::shared_ptr<Job>> queue_ RINGMASTER_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Batch>> spare_ RINGMASTER_GUARDED_BY(mutex_);

  std::vector<std::jthread> threads_;  // last, because the threads use the other members
};

}  // namespace ringmaster::trainer
