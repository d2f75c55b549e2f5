#pragma once

// The device that computes a head and stores this rank's rows: the host (host_head_device.h) or a
// GPU (gpu/kernel_head_device.h). Created once per process. A head uses one device, the device of
// its communicators. Spans are device memory unless stated otherwise.
//
// On one kind of device, the bits of a row's update depend only on the row and the step's inputs,
// in any shard or copy. The results of different kinds of device differ in the last bits.

#include <cstdint>
#include <memory>
#include <span>

#include "worker/trainer/partial_fc/row_storage.h"
#include "worker/trainer/partial_fc/shard_step.h"

namespace ringmaster::trainer::partial_fc {

// Thread-safety and errors are those of RowStorage.
class HeadDevice : public RowStorage {
 public:
  virtual std::unique_ptr<ShardStep> MakeStep() = 0;

  // Copies on the device, in stream order. Unlike Copy(), it does not wait for the device.
  virtual void CopyWithin(std::span<const float> from, std::span<float> to) = 0;
  virtual void Fill(std::span<float> values, float value) = 0;
  // The functions of vectors.h, for adjacent vectors of `size` floats.
  virtual void ToUnits(std::span<const float> vectors, int64_t size, std::span<float> units,
                       std::span<float> inverse_norms) = 0;
  virtual void ThroughNormalisation(std::span<const float> units,
                                    std::span<const float> inverse_norms,
                                    std::span<const float> unit_gradients, int64_t size,
                                    std::span<float> gradients) = 0;
  // See softmax.h.
  virtual void Rescale(std::span<float> sum, std::span<const float> own_maximum,
                       std::span<const float> maximum) = 0;
};

// Makes values in host memory available to a device, for as long as this object exists.
class OnDevice {
 public:
  OnDevice(HeadDevice& device, std::span<const float> host);
  std::span<const float> values() const { return values_; }

 private:
  std::shared_ptr<float> copy_;
  std::span<const float> values_;
};

// Applies the update of a past step to `rows`, which are on `device`, from the step's inputs.
void Replay(const HeadOptions& options, const StepInputs& inputs, HeadDevice& device,
            ShardStep& step, Rows& rows);

}  // namespace ringmaster::trainer::partial_fc
