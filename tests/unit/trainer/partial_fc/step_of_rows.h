#pragma once

// Runs one step on some rows of class centres, on any device, and returns its results.

#include <cmath>
#include <vector>

#include "worker/trainer/partial_fc/head_device.h"

namespace ringmaster::trainer::partial_fc {

inline constexpr int64_t kStepClasses = 300;
inline constexpr int64_t kStepWidth = 21;
inline constexpr int64_t kTheStep = 8;

inline HeadOptions StepOptions(double rate) {
  return {.classes = kStepClasses,
          .dimension = kStepWidth,
          .sampling = {.seed = 2, .rate = rate},
          .margin = {},
          .learning_rate = [](int64_t) { return 0.1; }};
}

inline StepInputs InputsOfTheStep() {
  StepInputs inputs{.version = {}, .step = kTheStep, .labels = {3, 250, 3, 20, 200, 201, 299}};
  const std::size_t samples = inputs.labels.size();
  inputs.embeddings.resize(samples * kStepWidth);
  for (std::size_t i = 0; i < samples; ++i) {
    std::vector<float> vector(kStepWidth);
    for (std::size_t k = 0; k < vector.size(); ++k) {
      vector[k] = std::sin(static_cast<float>(i * 100 + k));
    }
    ToUnit(vector.data(), kStepWidth, inputs.embeddings.data() + i * kStepWidth);
  }
  inputs.maximum.assign(samples, 60);
  inputs.sum.assign(samples, 2);
  return inputs;
}

struct MadeByAStep {
  std::vector<int64_t> sampled;
  std::vector<float> maximum, sum, target, gradients, rows;
  uint64_t checksum = 0;
};

// Runs the step on rows that have the host's initial values. `step` belongs to `device`.
inline MadeByAStep RunStep(const HeadOptions& options, HeadDevice& device, ShardStep& step,
                           ClassRange range) {
  const StepInputs inputs = InputsOfTheStep();
  const std::size_t samples = inputs.labels.size();
  PlacedFloats maximum_memory, sum_memory, target_memory, gradients_memory;
  const std::span<float> maximum = maximum_memory.Of(device, samples);
  const std::span<float> sum = sum_memory.Of(device, samples);
  const std::span<float> target = target_memory.Of(device, samples);
  const std::span<float> gradients = gradients_memory.Of(device, samples * kStepWidth);
  device.Fill(maximum, kNoMaximum);
  device.Fill(sum, 0);
  device.Fill(target, 0);
  device.Fill(gradients, 0);
  const OnDevice embeddings(device, inputs.embeddings);
  Rows rows = Rows::Initial(range, kStepWidth, 1).On(device);
  step.Begin(options, kTheStep, inputs.labels, embeddings.values(), range);
  step.ComputeLogits(rows, {.maximum = maximum, .sum = sum}, target);
  step.ComputeCoefficients(maximum, sum);
  step.AddEmbeddingGradients(rows, gradients);
  step.Update(rows, RatesOf(options, kTheStep));
  const auto to_host = [&](std::span<const float> values) {
    std::vector<float> host(values.size());
    device.Copy(values, host);
    return host;
  };
  return {.sampled = step.sampled(),
          .maximum = to_host(maximum),
          .sum = to_host(sum),
          .target = to_host(target),
          .gradients = to_host(gradients),
          .rows = to_host(rows.values()),
          .checksum = step.Checksum(rows)};
}

// Returns whether another order of summation can explain the difference.
inline bool IsNear(const std::vector<float>& actual, const std::vector<float>& expected) {
  if (actual.size() != expected.size()) return false;
  float greatest = 0;
  for (const float value : expected) greatest = std::max(greatest, std::abs(value));
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (!(std::abs(actual[i] - expected[i]) <= 2e-5F * greatest)) return false;
  }
  return true;
}

}  // namespace ringmaster::trainer::partial_fc
