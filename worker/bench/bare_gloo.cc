#include "worker/bench/bare_gloo.h"

#include <stdexcept>
#include <string>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

namespace ringmaster::bench {
namespace {

constexpr std::chrono::minutes kBareTimeout{5};

// A world's store as Gloo asks one.
class GlooStore final : public gloo::rendezvous::Store {
 public:
  explicit GlooStore(std::shared_ptr<trainer::Store> store) : store_(std::move(store)) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    const Result<void> set = store_->Set(key, std::string(data.begin(), data.end()));
    if (!set.ok()) throw std::runtime_error(set.error().message);
  }
  std::vector<char> get(const std::string& key) override {
    const auto found = store_->Get({key}, std::chrono::steady_clock::now() + kBareTimeout);
    if (!found.ok()) throw std::runtime_error(found.error().message);
    return {found->front().begin(), found->front().end()};
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, kBareTimeout); }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override {
    const auto found = store_->Get(keys, std::chrono::steady_clock::now() + timeout);
    if (!found.ok()) throw std::runtime_error(found.error().message);
  }

 private:
  const std::shared_ptr<trainer::Store> store_;
};

}  // namespace

BareGloo::BareGloo(const trainer::World& world) {
  const std::string address = world.address.empty() ? "127.0.0.1" : world.address;
  auto device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address.c_str()));
  auto context = std::make_shared<gloo::rendezvous::Context>(world.rank, world.size);
  context->setTimeout(kBareTimeout);
  GlooStore store(world.store);
  context->connectFullMesh(store, device);
  context_ = std::move(context);
}

BareGloo::~BareGloo() = default;

void BareGloo::AllReduce(std::span<float> values) {
  gloo::AllreduceOptions options(context_);
  options.setOutput(values.data(), values.size());
  options.setReduceFunction(
      static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
  options.setTag(next_tag_++);
  options.setTimeout(kBareTimeout);
  gloo::allreduce(options);
}

}  // namespace ringmaster::bench
