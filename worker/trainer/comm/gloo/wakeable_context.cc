#include "worker/trainer/comm/gloo/wakeable_context.h"

#include <stdexcept>
#include <utility>
#include <vector>

namespace ringmaster::trainer {
namespace {

using gloo::transport::Context;
using gloo::transport::Pair;
using gloo::transport::UnboundBuffer;

[[noreturn]] void ThrowWoken() { throw std::runtime_error("the connections were shut down"); }

class WakeableBuffer final : public UnboundBuffer {
 public:
  WakeableBuffer(std::unique_ptr<UnboundBuffer> inner, std::shared_ptr<WakeableBuffers> buffers)
      : UnboundBuffer(inner->ptr, inner->size),
        inner_(std::move(inner)),
        buffers_(std::move(buffers)) {
    buffers_->Add(inner_.get());
  }
  ~WakeableBuffer() override { buffers_->Remove(inner_.get()); }

  bool waitRecv(int* rank, std::chrono::milliseconds timeout) override {
    if (!inner_->waitRecv(rank, timeout)) ThrowWoken();
    return true;
  }
  bool waitSend(int* rank, std::chrono::milliseconds timeout) override {
    if (!inner_->waitSend(rank, timeout)) ThrowWoken();
    return true;
  }
  void abortWaitRecv() override { inner_->abortWaitRecv(); }
  void abortWaitSend() override { inner_->abortWaitSend(); }
  void send(int to, uint64_t slot, std::size_t offset, std::size_t bytes) override {
    inner_->send(to, slot, offset, bytes);
  }
  void recv(int from, uint64_t slot, std::size_t offset, std::size_t bytes) override {
    inner_->recv(from, slot, offset, bytes);
  }
  void recv(std::vector<int> from, uint64_t slot, std::size_t offset, std::size_t bytes) override {
    inner_->recv(std::move(from), slot, offset, bytes);
  }

 private:
  const std::unique_ptr<UnboundBuffer> inner_;
  const std::shared_ptr<WakeableBuffers> buffers_;
};

class WakeableContext final : public Context {
 public:
  WakeableContext(std::shared_ptr<Context> inner, std::shared_ptr<WakeableBuffers> buffers)
      : Context(inner->rank, inner->size), inner_(std::move(inner)), buffers_(std::move(buffers)) {
    setTimeout(inner_->getTimeout());
  }

  std::unique_ptr<Pair>& getPair(int peer) override { return inner_->getPair(peer); }
  std::unique_ptr<Pair>& createPair(int peer) override { return inner_->createPair(peer); }
  std::unique_ptr<UnboundBuffer> createUnboundBuffer(void* memory, std::size_t bytes) override {
    return std::make_unique<WakeableBuffer>(inner_->createUnboundBuffer(memory, bytes), buffers_);
  }

 private:
  const std::shared_ptr<Context> inner_;
  const std::shared_ptr<WakeableBuffers> buffers_;
};

}  // namespace

void WakeableBuffers::Wake() {
  const MutexLock lock(mutex_);
  woken_ = true;
  for (UnboundBuffer* buffer : buffers_) {
    buffer->abortWaitSend();
    buffer->abortWaitRecv();
  }
}

void WakeableBuffers::Add(UnboundBuffer* buffer) {
  const MutexLock lock(mutex_);
  if (woken_) ThrowWoken();
  buffers_.insert(buffer);
}

void WakeableBuffers::Remove(UnboundBuffer* buffer) {
  const MutexLock lock(mutex_);
  buffers_.erase(buffer);
}

std::shared_ptr<Context> MakeWakeable(std::shared_ptr<Context> inner,
                                      std::shared_ptr<WakeableBuffers> buffers) {
  return std::make_shared<WakeableContext>(std::move(inner), std::move(buffers));
}

}  // namespace ringmaster::trainer
