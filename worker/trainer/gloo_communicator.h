#pragma once

// The communicator over Gloo's TCP transport, for ranks on CPUs. Connecting and all operations run
// on one thread of the object's own, so that reductions overlap with the caller's computing and a
// world that never comes together costs the caller nothing but the object: it is abandoned by
// Abort() and destruction, which waits for Gloo no longer than the deadline given to Connect.

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "worker/trainer/communicator.h"

namespace gloo {
class Context;
}

namespace ringmaster::trainer {

class GlooMesh;

class GlooCommunicator final : public Communicator {
 public:
  // Starts to connect this rank with all others of `world`, who do the same through `store`;
  // operations called meanwhile wait for it. `store` outlives the object.
  GlooCommunicator(const World& world, Store& store, Deadline deadline);
  ~GlooCommunicator() override;

  int rank() const override { return world_.rank; }
  int size() const override { return world_.size; }

  WorkHandle AllReduce(std::span<float> values, Deadline deadline) override;
  WorkHandle AllGather(std::span<const std::byte> mine, std::span<std::byte> all,
                       Deadline deadline) override;
  WorkHandle Broadcast(std::span<std::byte> bytes, int root, Deadline deadline) override;
  WorkHandle Barrier(Deadline deadline) override;
  void Abort(const std::string& reason) override;

 private:
  // Runs one collective on the connected context; throws what Gloo throws.
  using Run = std::function<void(const std::shared_ptr<gloo::Context>& context,
                                 std::chrono::milliseconds timeout, uint32_t tag)>;
  struct Operation {
    const char* name;
    WorkHandle work;
    Run run;
  };

  WorkHandle Enqueue(const char* name, Deadline deadline, Run run);
  void Serve(const std::stop_token& stop, Store& store, Deadline connect_deadline);
  void Execute(const Operation& operation);
  void Fail(const std::string& doing, const std::string& reason, Deadline deadline);

  // Constant.
  const World world_;

  // Of the communication thread, and of Abort() through its own lock.
  const std::unique_ptr<GlooMesh> mesh_;
  uint32_t next_tag_ = 0;

  // Guarded by mutex_.
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<Operation> queue_;
  std::optional<Error> broken_;  // set once; no operation runs after it

  std::jthread thread_;  // last member: it ends first
};

}  // namespace ringmaster::trainer
