#include "worker/trainer/gloo_communicator.h"

#include <algorithm>
#include <exception>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <utility>

#include "common/base/log.h"
#include "worker/trainer/gloo_mesh.h"

namespace ringmaster::trainer {
namespace {

void Add(void* sum, const void* a, const void* b, std::size_t count) {
  auto* out = static_cast<float*>(sum);
  const auto* x = static_cast<const float*>(a);
  const auto* y = static_cast<const float*>(b);
  for (std::size_t i = 0; i < count; ++i) out[i] = x[i] + y[i];
}

}  // namespace

GlooCommunicator::GlooCommunicator(const World& world, Store& store, Deadline deadline)
    : world_(world), mesh_(std::make_unique<GlooMesh>()) {
  thread_ = std::jthread(
      [this, &store, deadline](const std::stop_token& stop) { Serve(stop, store, deadline); });
}

GlooCommunicator::~GlooCommunicator() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  for (const Operation& operation : queue_) {
    operation.work->Complete(Error{ErrorKind::kCancelled, "the communicator ended"});
  }
}

void GlooCommunicator::Serve(const std::stop_token& stop, Store& store, Deadline connect_deadline) {
  const std::string connecting =
      "connecting rank " + std::to_string(world_.rank) + " of " + std::to_string(world_.size);
  try {
    const Result<void> connected = mesh_->Connect(world_, store, connect_deadline);
    if (!connected.ok()) Fail(connecting, connected.error().message, connect_deadline);
  } catch (const std::exception& error) {
    Fail(connecting, error.what(), connect_deadline);
  }
  std::unique_lock lock(mutex_);
  while (wake_.wait(lock, stop, [&] { return !queue_.empty(); })) {
    const Operation operation = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    Execute(operation);
    lock.lock();
  }
}

void GlooCommunicator::Execute(const Operation& operation) {
  std::optional<Error> broken;
  {
    const std::lock_guard lock(mutex_);
    broken = broken_;
  }
  if (!broken) {
    try {
      operation.run(mesh_->context(), Left(operation.work->deadline()), next_tag_++);
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

void GlooCommunicator::Fail(const std::string& doing, const std::string& reason,
                            Deadline deadline) {
  const bool late = std::chrono::steady_clock::now() >= deadline;
  {
    const std::lock_guard lock(mutex_);
    if (broken_) return;  // aborted: that is the reason, not what it made fail
    broken_ =
        Error{late ? ErrorKind::kTimeout : ErrorKind::kUnavailable, reason}.WithContext(doing);
  }
  mesh_->ShutDown();  // so that the peers do not wait for their own deadlines
}

void GlooCommunicator::Abort(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!broken_) broken_ = Error{ErrorKind::kCancelled, reason};
  }
  mesh_->ShutDown();
}

WorkHandle GlooCommunicator::Enqueue(const char* name, Deadline deadline, Run run) {
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

WorkHandle GlooCommunicator::AllReduce(std::span<float> values, Deadline deadline) {
  return Enqueue("allreduce", deadline,
                 [values](const auto& context, std::chrono::milliseconds timeout, uint32_t tag) {
                   gloo::AllreduceOptions options(context);
                   options.setOutput(values.data(), values.size());
                   options.setReduceFunction(&Add);
                   options.setTag(tag);
                   options.setTimeout(timeout);
                   gloo::allreduce(options);
                 });
}

WorkHandle GlooCommunicator::AllGather(std::span<const std::byte> mine, std::span<std::byte> all,
                                       Deadline deadline) {
  return Enqueue("allgather", deadline,
                 [mine, all](const auto& context, std::chrono::milliseconds timeout, uint32_t tag) {
                   gloo::AllgatherOptions options(context);
                   // Gloo only reads from its input, but has no type for that.
                   options.setInput(reinterpret_cast<char*>(const_cast<std::byte*>(mine.data())),
                                    mine.size());
                   options.setOutput(reinterpret_cast<char*>(all.data()), all.size());
                   options.setTag(tag);
                   options.setTimeout(timeout);
                   gloo::allgather(options);
                 });
}

WorkHandle GlooCommunicator::Broadcast(std::span<std::byte> bytes, int root, Deadline deadline) {
  return Enqueue(
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
  return Enqueue("barrier", deadline,
                 [](const auto& context, std::chrono::milliseconds timeout, uint32_t tag) {
                   gloo::BarrierOptions options(context);
                   options.setTag(tag);
                   options.setTimeout(timeout);
                   gloo::barrier(options);
                 });
}

}  // namespace ringmaster::trainer
