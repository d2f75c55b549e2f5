#include "worker/trainer/partial_fc/host_head_device.h"

#include <algorithm>

#include "worker/trainer/partial_fc/host_shard_step.h"
#include "worker/trainer/partial_fc/softmax.h"
#include "worker/trainer/partial_fc/vectors.h"

namespace ringmaster::trainer::partial_fc {
namespace {

class HostHeadDevice final : public HeadDevice {
 public:
  bool on_host() const override { return true; }
  std::shared_ptr<float> Allocate(std::size_t count) override { return HostRows().Allocate(count); }
  void Copy(std::span<const float> from, std::span<float> to) override {
    HostRows().Copy(from, to);
  }
  void Initialise(uint64_t seed, int64_t first, int64_t dimension, std::span<float> rows) override {
    HostRows().Initialise(seed, first, dimension, rows);
  }
  uint64_t Checksum(int64_t first, int64_t row_floats, std::span<const float> rows) override {
    return HostRows().Checksum(first, row_floats, rows);
  }

  std::unique_ptr<ShardStep> MakeStep() override { return std::make_unique<HostShardStep>(); }
  void CopyWithin(std::span<const float> from, std::span<float> to) override { Copy(from, to); }
  void Fill(std::span<float> values, float value) override { std::ranges::fill(values, value); }
  void ToUnits(std::span<const float> vectors, int64_t size, std::span<float> units,
               std::span<float> inverse_norms) override {
    for (std::size_t i = 0; i < inverse_norms.size(); ++i) {
      const std::size_t at = i * static_cast<std::size_t>(size);
      inverse_norms[i] = ToUnit(vectors.data() + at, size, units.data() + at);
    }
  }
  void ThroughNormalisation(std::span<const float> units, std::span<const float> inverse_norms,
                            std::span<const float> unit_gradients, int64_t size,
                            std::span<float> gradients) override {
    for (std::size_t i = 0; i < inverse_norms.size(); ++i) {
      const std::size_t at = i * static_cast<std::size_t>(size);
      partial_fc::ThroughNormalisation(units.data() + at, inverse_norms[i],
                                       unit_gradients.data() + at, size, gradients.data() + at);
    }
  }
  void Rescale(std::span<float> sum, std::span<const float> own_maximum,
               std::span<const float> maximum) override {
    partial_fc::Rescale(sum, own_maximum, maximum);
  }
};

}  // namespace

std::shared_ptr<HeadDevice> MakeHostHeadDevice() { return std::make_shared<HostHeadDevice>(); }

}  // namespace ringmaster::trainer::partial_fc
