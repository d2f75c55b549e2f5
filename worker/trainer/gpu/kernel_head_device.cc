#include "worker/trainer/gpu/kernel_head_device.h"

#include <utility>

#include <ATen/ATen.h>

#include "worker/trainer/gpu/kernel_shard_step.h"
#include "worker/trainer/kernels/centre_rows.h"
#include "worker/trainer/kernels/margin_softmax.h"

namespace ringmaster::trainer {
namespace {

using namespace partial_fc;

class KernelHeadDevice final : public HeadDevice {
 public:
  explicit KernelHeadDevice(KernelDevice device) : device_(std::move(device)) {}

  bool on_host() const override { return false; }
  std::shared_ptr<float> Allocate(std::size_t count) override {
    auto memory = std::make_shared<at::Tensor>(at::empty(
        {static_cast<int64_t>(count)}, at::TensorOptions(at::kFloat).device(device_.device)));
    return {memory, memory->data_ptr<float>()};
  }
  void Copy(std::span<const float> from, std::span<float> to) override {
    CheckLaunch(CopyAndWait(from.data(), to.data(), from.size(), device_.stream()), "copying rows");
  }
  void Initialise(uint64_t seed, int64_t first, int64_t dimension, std::span<float> rows) override {
    CheckLaunch(
        LaunchInitialRows(seed, first, dimension, rows.data(),
                          static_cast<int64_t>(rows.size()) / (2 * dimension), device_.stream()),
        "initialising class centres");
  }
  uint64_t Checksum(int64_t first, int64_t row_floats, std::span<const float> rows) override {
    const at::Tensor sum = at::zeros({1}, at::TensorOptions(at::kLong).device(device_.device));
    CheckLaunch(LaunchRowChecksums(
                    first, row_floats, rows.data(), nullptr, static_cast<uint64_t*>(sum.data_ptr()),
                    static_cast<int64_t>(rows.size()) / row_floats, device_.stream()),
                "summing up class centres");
    return static_cast<uint64_t>(sum.item<int64_t>());
  }

  std::unique_ptr<ShardStep> MakeStep() override {
    return std::make_unique<KernelShardStep>(device_);
  }
  void CopyWithin(std::span<const float> from, std::span<float> to) override {
    CheckLaunch(LaunchCopy(from.data(), to.data(), from.size(), device_.stream()), "copying rows");
  }
  void Fill(std::span<float> values, float value) override {
    CheckLaunch(
        LaunchFill(values.data(), value, static_cast<int64_t>(values.size()), device_.stream()),
        "filling");
  }
  void ToUnits(std::span<const float> vectors, int64_t size, std::span<float> units,
               std::span<float> inverse_norms) override {
    CheckLaunch(LaunchToUnits({.data = vectors.data(), .step = size, .size = size}, units.data(),
                              inverse_norms.data(), static_cast<int64_t>(inverse_norms.size()),
                              device_.stream()),
                "normalising embeddings");
  }
  void ThroughNormalisation(std::span<const float> units, std::span<const float> inverse_norms,
                            std::span<const float> unit_gradients, int64_t size,
                            std::span<float> gradients) override {
    CheckLaunch(LaunchThroughNormalisation(
                    units.data(), inverse_norms.data(), unit_gradients.data(), size,
                    gradients.data(), static_cast<int64_t>(inverse_norms.size()), device_.stream()),
                "computing gradients of embeddings");
  }
  void Rescale(std::span<float> sum, std::span<const float> own_maximum,
               std::span<const float> maximum) override {
    CheckLaunch(LaunchRescale(sum.data(), own_maximum.data(), maximum.data(),
                              static_cast<int64_t>(sum.size()), device_.stream()),
                "rescaling the softmax sums");
  }

 private:
  const KernelDevice device_;
};

}  // namespace

std::shared_ptr<HeadDevice> MakeKernelHeadDevice(KernelDevice device) {
  return std::make_shared<KernelHeadDevice>(std::move(device));
}

}  // namespace ringmaster::trainer
