#include "worker/trainer/comm/host/transport_choice.h"

#include <atomic>
#include <utility>

#include "common/base/count_text.h"
#include "common/base/log.h"
#include "worker/trainer/comm/shared_memory/shared_memory_transport.h"

namespace ringmaster::trainer {
namespace {

constexpr char kNoGloo[] =
    "this build of ringmaster-train does not include Gloo; use another build or --device=cuda";

// Uses shared memory if all ranks can share it, otherwise Gloo. Every rank publishes an answer,
// even if a flag requires Gloo. All ranks read the same answers, so all choose the same transport.
class ChoosingTransport final : public CollectiveTransport {
 public:
  ChoosingTransport(HostTransport choice, std::shared_ptr<CollectiveTransport> gloo)
      : choice_(choice), gloo_(std::move(gloo)) {}

  Result<void> Connect(const World& world, Deadline deadline) override {
    const auto refused = memory_.Meet(world, choice_ != HostTransport::kGloo, deadline);
    if (!refused.ok()) return refused.error();
    if (!*refused) {
      chosen_ = &memory_;
      return {};
    }
    const std::string why = "the ranks cannot share memory: " + **refused;
    if (choice_ == HostTransport::kSharedMemory) {
      return Error{ErrorKind::kInvalid, why + "; remove --transport=shared-memory"};
    }
    if (gloo_ == nullptr) return Error{ErrorKind::kInvalid, why + ", and " + kNoGloo};
    if (choice_ == HostTransport::kAuto) LogDebug("Using Gloo for collectives", {{"reason", why}});
    if (down_)
      return Error{ErrorKind::kCancelled,
                   "the world was abandoned while its ranks were connecting"};
    chosen_ = gloo_.get();
    return gloo_->Connect(world, deadline);
  }
  int missing() const override {
    const int peer = memory_.missing();
    return peer >= 0 || gloo_ == nullptr ? peer : gloo_->missing();
  }
  std::size_t bytes_run_by_waiter() const override {
    return chosen_ == nullptr ? 0 : chosen_->bytes_run_by_waiter();
  }
  void ShutDown() override {
    down_ = true;
    memory_.ShutDown();
    if (gloo_ != nullptr) gloo_->ShutDown();
  }

  Collectives& collectives() override { return chosen_->collectives(); }

 private:
  const HostTransport choice_;
  const std::shared_ptr<CollectiveTransport> gloo_;  // null if this build lacks it
  SharedMemoryTransport memory_;
  CollectiveTransport* chosen_ = nullptr;  // set by the queue's thread before any operation
  std::atomic<bool> down_ = false;
};

}  // namespace

Result<std::unique_ptr<Communicator>> MakeHostCommunicator(const World& world, Deadline deadline,
                                                           AbandonedConnects& abandoned_connects,
                                                           HostTransport transport) {
  std::shared_ptr<CollectiveTransport> gloo = MakeHostGloo();
  const std::string ranks = "a world of " + CountText(world.size, "rank") + " on CPUs";
  if (transport == HostTransport::kGloo && gloo == nullptr) {
    return Error{ErrorKind::kInvalid, "--transport=gloo: " + std::string(kNoGloo)};
  }
  if (!world.one_machine && transport == HostTransport::kSharedMemory) {
    return Error{ErrorKind::kInvalid,
                 ranks + " in several Pods cannot share memory; remove --transport=shared-memory"};
  }
  if (!world.one_machine && gloo == nullptr) {
    return Error{ErrorKind::kInvalid, ranks + ": " + kNoGloo};
  }
  if (world.one_machine) gloo = std::make_shared<ChoosingTransport>(transport, std::move(gloo));
  return std::unique_ptr<Communicator>(
      new TransportCommunicator(world, deadline, std::move(gloo), abandoned_connects));
}

}  // namespace ringmaster::trainer
