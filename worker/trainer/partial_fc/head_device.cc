#include "worker/trainer/partial_fc/head_device.h"

namespace ringmaster::trainer::partial_fc {

OnDevice::OnDevice(HeadDevice& device, std::span<const float> host) : values_(host) {
  if (device.on_host()) return;
  copy_ = device.Allocate(host.size());
  device.Copy(host, {copy_.get(), host.size()});
  values_ = {copy_.get(), host.size()};
}

void Replay(const HeadOptions& options, const StepInputs& inputs, HeadDevice& device,
            ShardStep& step, Rows& rows) {
  if (inputs.excluded) return;
  const OnDevice embeddings(device, inputs.embeddings);
  const OnDevice maximum(device, inputs.maximum);
  const OnDevice sum(device, inputs.sum);
  step.Begin(options, inputs.step, inputs.labels, embeddings.values(), rows.range());
  step.ComputeLogits(rows, {}, {});
  step.ComputeCoefficients(maximum.values(), sum.values());
  step.Update(rows, RatesOf(options, inputs.step));
}

}  // namespace ringmaster::trainer::partial_fc
