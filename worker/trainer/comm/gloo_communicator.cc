#include "worker/trainer/comm/gloo_communicator.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <deque>
#include <exception>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <mutex>
#include <optional>
#include <utility>

#include "worker/trainer/comm/direct_allreduce.h"
#include "worker/trainer/comm/gloo_mesh.h"

namespace ringmaster::trainer {
namespace {

// Gloo writes to sockets that a peer, or ShutDown(), may have closed, and does not ask to be spared
// the signal, which would end the process. The threads that it starts inherit the mask.
void BlockBrokenPipes() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

// Runs one collective on the connected context; throws what Gloo throws.
using Run = std::function<void(const std::shared_ptr<gloo::Context>& context,
                               std::chrono::milliseconds timeout, uint32_t tag)>;

// Gloo asks for a type only to know its size.
void SetOutput(gloo::AllreduceOptions& options, Elements values) {
  switch (SizeOf(values.type)) {
    case 1:
      return options.setOutput(reinterpret_cast<uint8_t*>(values.data), values.count);
    case 2:
      return options.setOutput(reinterpret_cast<uint16_t*>(values.data), values.count);
    case 4:
      return options.setOutput(reinterpret_cast<uint32_t*>(values.data), values.count);
    default:
      return options.setOutput(reinterpret_cast<uint64_t*>(values.data), values.count);
  }
}

void Exchange(const std::shared_ptr<gloo::Context>& context, std::chrono::milliseconds timeout,
              uint32_t tag, std::span<const std::byte> send, const std::vector<int64_t>& to,
              std::span<std::byte> receive, const std::vector<int64_t>& from) {
  gloo::AlltoallvOptions options(context);
  // Gloo only reads from its input, but has no type for that.
  options.setInput(reinterpret_cast<char*>(const_cast<std::byte*>(send.data())), to);
  options.setOutput(reinterpret_cast<char*>(receive.data()), from);
  options.setTag(tag);
  options.setTimeout(timeout);
  gloo::alltoallv(options);
}

struct Operation {
  const char* name;
  WorkHandle work;
  Run run;
};

}  // namespace

// The connection and its queue. One thread serves it; all else comes from the owner and from
// whoever aborts. An operation's memory is the caller's: once broken, no operation starts, those
// in the queue are dropped, and Stop() tells whether one may still be under way.
class GlooCommunicator::Engine {
 public:
  explicit Engine(const World& world) : world_(world) {}

  const World& world() const { return world_; }
  const std::atomic<bool>& ended() const { return ended_; }

  // The thread's whole life.
  void Serve(Deadline connect_deadline);

  WorkHandle Enqueue(const char* name, Deadline deadline, Run run);

  // The first error counts: every operation that has not ended ends with it, within milliseconds.
  void Break(Error error, int lost_peer = -1);

  int LostPeer();

  // Nothing starts any more. True when the thread is about to end, false while it still connects.
  bool Stop();

  // Memory for the operation under way.
  std::vector<std::byte>& received() { return received_; }

 private:
  void Connect(Deadline deadline);
  void Execute(const Operation& operation);
  void Fail(const std::string& doing, const std::string& reason, Deadline deadline,
            int lost_peer = -1);

  // Constant.
  const World world_;

  // Of the thread, and of Break() through its own lock.
  GlooMesh mesh_;
  uint32_t next_tag_ = 0;
  std::vector<std::byte> received_;

  std::atomic<bool> ended_ = false;

  // Guarded by mutex_.
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Operation> queue_;
  std::optional<Error> broken_;  // set once; no operation runs after it
  int lost_peer_ = -1;           // with broken_
  bool connecting_ = true;
  bool stopping_ = false;
};

void GlooCommunicator::Engine::Serve(Deadline connect_deadline) {
  BlockBrokenPipes();
  Connect(connect_deadline);
  std::unique_lock lock(mutex_);
  connecting_ = false;
  for (;;) {
    wake_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (stopping_) break;
    const Operation operation = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    Execute(operation);
    lock.lock();
  }
  lock.unlock();
  ended_ = true;
}

void GlooCommunicator::Engine::Connect(Deadline deadline) {
  const std::string connecting =
      "connecting rank " + std::to_string(world_.rank) + " of " + std::to_string(world_.size);
  try {
    const Result<void> connected = mesh_.Connect(world_, deadline);
    if (connected.ok()) return;
    Fail(connecting, connected.error().message, deadline, mesh_.missing());
  } catch (const std::exception& error) {
    Fail(connecting, error.what(), deadline, mesh_.missing());
  }
}

void GlooCommunicator::Engine::Execute(const Operation& operation) {
  std::optional<Error> broken;
  {
    const std::lock_guard lock(mutex_);
    broken = broken_;
  }
  if (!broken) {
    try {
      operation.work->Begin();
      operation.run(mesh_.context(), Left(operation.work->deadline()), next_tag_++);
      operation.work->Complete({});
      return;
    } catch (const std::exception& error) {
      Fail(std::string("reducing with the other ranks (") + operation.name + ")", error.what(),
           operation.work->deadline());
    }
  }
  const std::lock_guard lock(mutex_);
  operation.work->Complete(*broken_);
}

void GlooCommunicator::Engine::Fail(const std::string& doing, const std::string& reason,
                                    Deadline deadline, int lost_peer) {
  const bool late = std::chrono::steady_clock::now() >= deadline;
  Break(Error{late ? ErrorKind::kTimeout : ErrorKind::kUnavailable, reason}.WithContext(doing),
        lost_peer);
}

int GlooCommunicator::Engine::LostPeer() {
  const std::lock_guard lock(mutex_);
  return broken_ ? lost_peer_ : mesh_.missing();  // not yet broken: whoever waits lost patience
}

void GlooCommunicator::Engine::Break(Error error, int lost_peer) {
  {
    const std::lock_guard lock(mutex_);
    if (!broken_) {
      broken_ = std::move(error);
      lost_peer_ = lost_peer;
    }
    for (const Operation& operation : queue_) operation.work->Complete(*broken_);
    queue_.clear();
  }
  mesh_.ShutDown();  // also so that the peers do not wait for their own deadlines
}

bool GlooCommunicator::Engine::Stop() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  const bool connecting = connecting_;
  lock.unlock();
  Break(Error{ErrorKind::kCancelled, "the communicator ended"});
  wake_.notify_one();
  return !connecting;
}

WorkHandle GlooCommunicator::Engine::Enqueue(const char* name, Deadline deadline, Run run) {
  auto work = std::make_shared<Work>(deadline);
  const std::lock_guard lock(mutex_);
  if (broken_) {
    work->Complete(*broken_);
    return work;
  }
  queue_.push_back({name, work, std::move(run)});
  wake_.notify_one();
  return work;
}

GlooCommunicator::GlooCommunicator(const World& world, Deadline deadline, LeftBehind& left_behind)
    : engine_(std::make_shared<Engine>(world)), left_behind_(left_behind) {
  thread_ = std::jthread([engine = engine_, deadline] { engine->Serve(deadline); });
}

GlooCommunicator::~GlooCommunicator() {
  if (engine_->Stop()) {
    thread_.join();
  } else {
    left_behind_.Take(std::move(thread_), {engine_, &engine_->ended()});
  }
}

int GlooCommunicator::rank() const { return engine_->world().rank; }
int GlooCommunicator::size() const { return engine_->world().size; }

void GlooCommunicator::Abort(const std::string& reason) {
  engine_->Break(Error{ErrorKind::kCancelled, reason});
}

int GlooCommunicator::LostPeer() const { return engine_->LostPeer(); }

WorkHandle GlooCommunicator::AllReduce(Elements values, ReduceOp op, Deadline deadline) {
  return engine_->Enqueue(
      "allreduce", deadline,
      [values, op, engine = engine_.get()](const auto& context, std::chrono::milliseconds timeout,
                                           uint32_t tag) {
        if (values.bytes() <= kDirectAllReduceBytes) {
          return DirectAllReduce(context, timeout, tag, values, op, engine->received());
        }
        gloo::AllreduceOptions options(context);
        SetOutput(options, values);
        options.setReduceFunction(ReduceFunctionFor(values.type, op));
        options.setTag(tag);
        options.setTimeout(timeout);
        gloo::allreduce(options);
      });
}

WorkHandle GlooCommunicator::ReduceScatter(Elements all, Elements mine, ReduceOp op,
                                           Deadline deadline) {
  // Every piece travels once, straight to its rank, which reduces them in the order of the ranks.
  auto pieces = std::make_shared<std::vector<std::byte>>(all.bytes());
  return engine_->Enqueue(
      "reduce-scatter", deadline,
      [all, mine, op, pieces, size = this->size()](
          const auto& context, std::chrono::milliseconds timeout, uint32_t tag) {
        const std::vector<int64_t> even(static_cast<std::size_t>(size),
                                        static_cast<int64_t>(mine.bytes()));
        if (mine.count == 0) return;
        Exchange(context, timeout, tag, all.memory(), even, *pieces, even);
        const ReduceFunction reduce = ReduceFunctionFor(mine.type, op);
        std::memcpy(mine.data, pieces->data(), mine.bytes());
        for (std::size_t from = mine.bytes(); from < pieces->size(); from += mine.bytes())
          reduce(mine.data, mine.data, pieces->data() + from, mine.count);
      });
}

WorkHandle GlooCommunicator::AllToAll(std::span<const std::byte> send,
                                      std::vector<std::size_t> send_bytes,
                                      std::span<std::byte> receive,
                                      std::vector<std::size_t> receive_bytes, Deadline deadline) {
  return engine_->Enqueue(
      "all-to-all", deadline,
      [send, receive, to = std::vector<int64_t>(send_bytes.begin(), send_bytes.end()),
       from = std::vector<int64_t>(receive_bytes.begin(), receive_bytes.end())](
          const auto& context, std::chrono::milliseconds timeout, uint32_t tag) {
        Exchange(context, timeout, tag, send, to, receive, from);
      });
}

WorkHandle GlooCommunicator::AllGather(std::span<const std::byte> mine, std::span<std::byte> all,
                                       Deadline deadline) {
  return engine_->Enqueue(
      "allgather", deadline,
      [mine, all](const auto& context, std::chrono::milliseconds timeout, uint32_t tag) {
        gloo::AllgatherOptions options(context);
        // Gloo only reads from its input, but has no type for that.
        options.setInput(reinterpret_cast<char*>(const_cast<std::byte*>(mine.data())), mine.size());
        options.setOutput(reinterpret_cast<char*>(all.data()), all.size());
        options.setTag(tag);
        options.setTimeout(timeout);
        gloo::allgather(options);
      });
}

WorkHandle GlooCommunicator::Broadcast(std::span<std::byte> bytes, int root, Deadline deadline) {
  return engine_->Enqueue(
      "broadcast", deadline,
      [bytes, root](const auto& context, std::chrono::milliseconds timeout, uint32_t tag) {
        gloo::BroadcastOptions options(context);
        options.setOutput(reinterpret_cast<char*>(bytes.data()), bytes.size());
        options.setRoot(root);
        options.setTag(tag);
        options.setTimeout(timeout);
        gloo::broadcast(options);
      });
}

WorkHandle GlooCommunicator::Barrier(Deadline deadline) {
  return engine_->Enqueue("barrier", deadline,
                          [](const auto& context, std::chrono::milliseconds timeout, uint32_t tag) {
                            gloo::BarrierOptions options(context);
                            options.setTag(tag);
                            options.setTimeout(timeout);
                            gloo::barrier(options);
                          });
}

}  // namespace ringmaster::trainer
