#pragma once

// The common part of communicators over blocking libraries. One thread connects and then runs
// operations in the order of the calls, so reductions overlap with computation, and a world that
// fails to connect does not block the caller. If waking the thread would cost more than an
// operation, the thread that waits for the operation runs it. The destructor ends the current
// operation. If the thread is still connecting, the destructor abandons the thread instead of
// waiting for it.

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "common/base/mutex.h"
#include "worker/trainer/comm/abandoned_connects.h"
#include "worker/trainer/comm/communicator.h"

namespace ringmaster::trainer {

// Returns the time until the deadline; at least 1 ms, because 0 means forever in most libraries.
std::chrono::milliseconds Left(Deadline deadline);

// A library's connections among the ranks of a world.
class Transport {
 public:
  virtual ~Transport() = default;

  // Called once, by the queue's thread, before any operation. May throw. kInvalid: another world
  // would fail in the same way.
  virtual Result<void> Connect(const World& world, Deadline deadline) = 0;

  // Returns the rank that the current Connect() tries to reach, or that it failed to reach; -1 if
  // no single rank is known. Thread-safe.
  virtual int missing() const { return -1; }

  // Returns the size up to which waiters run operations themselves. REQUIRES: Connect() returned.
  virtual std::size_t bytes_run_by_waiter() const { return 0; }

  // Ends all operations and Connect() within milliseconds. Thread-safe; may be called again.
  virtual void ShutDown() = 0;

  // Called once, instead of ShutDown(), if all operations of this rank succeeded and the object is
  // about to be destroyed. Other ranks may not have received all sent data yet.
  virtual void Leave() { ShutDown(); }
};

// The queue of a transport's operations. A communicator and its thread share the queue, because the
// thread may outlive the communicator. One thread at a time runs operations; the owner and a thread
// that aborts may call the other functions. Operations use the caller's memory, so after Break() no
// operation starts, and queued operations are dropped.
class OperationQueue {
 public:
  // Runs one collective; throws what the library throws.
  using Run = std::function<void(Deadline deadline)>;

  // REQUIRES: `transport` outlives the object.
  OperationQueue(const World& world, Transport& transport) : world_(world), transport_(transport) {}

  const World& world() const { return world_; }
  const std::atomic<bool>& ended() const { return ended_; }

  // The function of the queue's thread: connects, and runs operations until Stop() is called.
  void Serve(Deadline connect_deadline);

  // Threads that wait for the operation call `help`, which must call Help().
  WorkHandle Enqueue(const char* name, std::size_t bytes, Deadline deadline, Run run,
                     Work::Help help);

  // Runs queued operations that waiters may run, up to `work`, unless another thread runs them.
  void Help(const Work& work);

  // Keeps only the first error. All running and queued operations fail with it within milliseconds.
  void Break(Error error, int lost_peer = -1);

  int LostPeer();

  // Ends all operations. Returns true if the thread is about to end, false if it is connecting.
  bool Stop();

 private:
  struct Operation {
    const char* name;
    WorkHandle work;
    Run run;
    bool by_waiter;  // a thread that waits may run it
  };

  void Connect(Deadline deadline);
  // Releases the lock while it runs the first operation.
  void ServeOne() RINGMASTER_REQUIRES(mutex_);
  void Execute(const Operation& operation);
  void Fail(const std::string& doing, const std::string& reason, Deadline deadline,
            int lost_peer = -1);

  const World world_;
  Transport& transport_;
  std::atomic<bool> ended_ = false;

  Mutex mutex_;
  CondVar wake_;
  std::deque<Operation> queue_ RINGMASTER_GUARDED_BY(mutex_);
  // Set once; no operation starts after it is set.
  std::optional<Error> broken_ RINGMASTER_GUARDED_BY(mutex_);
  int lost_peer_ RINGMASTER_GUARDED_BY(mutex_) = -1;  // set together with broken_
  std::size_t bytes_by_waiter_ RINGMASTER_GUARDED_BY(mutex_) = 0;
  WorkHandle serving_ RINGMASTER_GUARDED_BY(mutex_);       // the operation that a thread runs now
  bool thread_due_ RINGMASTER_GUARDED_BY(mutex_) = false;  // the thread must serve the queue
  bool connecting_ RINGMASTER_GUARDED_BY(mutex_) = true;
  bool stopping_ RINGMASTER_GUARDED_BY(mutex_) = false;
};

// A communicator whose operations go through an OperationQueue.
class QueuedCommunicator : public Communicator {
 public:
  int rank() const override { return shared_->queue.world().rank; }
  int size() const override { return shared_->queue.world().size; }
  void Abort(const std::string& reason) override;
  int LostPeer() const override { return shared_->queue.LostPeer(); }

 protected:
  // Starts to connect. Operations wait until it is connected. `abandoned_connects` must outlive the
  // object.
  QueuedCommunicator(const World& world, Deadline deadline, std::shared_ptr<Transport> transport,
                     AbandonedConnects& abandoned_connects);
  ~QueuedCommunicator() override;

  WorkHandle Enqueue(const char* name, std::size_t bytes, Deadline deadline,
                     OperationQueue::Run run);

 private:
  struct Shared {  // shared with the thread
    Shared(const World& world, std::shared_ptr<Transport> carrier)
        : transport(std::move(carrier)), queue(world, *transport) {}
    const std::shared_ptr<Transport> transport;
    OperationQueue queue;
  };

  const std::shared_ptr<Shared> shared_;
  AbandonedConnects& abandoned_connects_;
  std::jthread thread_;
};

}  // namespace ringmaster::trainer
