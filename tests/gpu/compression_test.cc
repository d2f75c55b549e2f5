// Compares compression in GPU memory with compression on the host: codes and residuals must be the
// same bit for bit, and sums of ranks over NCCL must equal the sums that a host computes.

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/gpu/gpu_ranks.h"
#include "worker/trainer/compression/compressed_reducer.h"
#include "worker/trainer/gpu/cuda_row_codec.h"
#include "worker/trainer/gpu/gpu.h"

namespace ringmaster::trainer {
namespace {

constexpr std::array kFormats{Compression::kFloat16, Compression::kBFloat16,
                              Compression::kFloat8E4M3, Compression::kFloat8E5M2};
constexpr std::size_t kGradients = 100'003;
constexpr std::chrono::seconds kCodecLimit{60};

Deadline CodecDeadline() { return std::chrono::steady_clock::now() + kCodecLimit; }

// Returns values of all magnitudes, some of them NaN.
std::vector<float> Awkward(int seed) {
  std::vector<float> values(kGradients);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double phase = static_cast<double>(i) * 0.37 + seed;
    const int exponent = static_cast<int>(i / 256 % 60) - 30;
    values[i] = static_cast<float>(std::ldexp(std::sin(phase), exponent));
  }
  values[11] = NAN;
  values[512] = INFINITY;
  values[777] = 0;
  values[1030] = 1e-42F;
  return values;
}

// A tensor's GPU memory as a span. Valid while the tensor exists.
template <typename T>
std::span<T> SpanOf(const at::Tensor& tensor) {
  return {static_cast<T*>(tensor.data_ptr()),
          static_cast<std::size_t>(tensor.nbytes()) / sizeof(T)};
}

at::Tensor OnGpu(std::vector<float>& values) {
  return at::from_blob(values.data(), {static_cast<int64_t>(values.size())}).to("cuda:0");
}

bool SameBits(const at::Tensor& device, const void* host, const char* what, Compression format) {
  const at::Tensor copy = device.cpu();
  if (std::memcmp(copy.data_ptr(), host, copy.nbytes()) == 0) return true;
  std::fprintf(stderr, "%s: other %s on the GPU than on the host\n", NameOf(format), what);
  return false;
}

int CompareCodes(Compression format) {
  const auto made = MakeCudaRowCodec(0, format);
  if (!made.ok() || !(*made)->Attach().ok()) return 1;
  RowCodec& codec = **made;
  std::vector<float> values = Awkward(1);
  std::vector<float> left = Awkward(2);
  std::vector<std::byte> encoded(codec.EncodedBytes(kGradients));
  std::vector<float> decoded = Awkward(3);
  const at::Tensor device_values = OnGpu(values);
  const at::Tensor device_left = OnGpu(left);
  const at::Tensor device_decoded = OnGpu(decoded);
  const at::Tensor device_encoded = at::empty({static_cast<int64_t>(encoded.size())},
                                              at::TensorOptions(at::kByte).device("cuda:0"));
  Encode(format, values, left, left, encoded);
  DecodeAdd(format, encoded, decoded);

  const Result<RowCodec::Mark> ready = codec.Computed();
  const bool done =
      ready.ok() && codec.StartAfter(*ready).ok() &&
      codec
          .Encode(SpanOf<float>(device_values), SpanOf<float>(device_left),
                  SpanOf<float>(device_left), SpanOf<std::byte>(device_encoded))
          .ok() &&
      codec.DecodeAdd(SpanOf<std::byte>(device_encoded), SpanOf<float>(device_decoded)).ok() &&
      codec.Finish(CodecDeadline()).ok();
  if (!done) return 1;
  bool same = SameBits(device_encoded, encoded.data(), "codes", format) &&
              SameBits(device_left, left.data(), "residuals", format);
  // A sum that is NaN may have different bits.
  const at::Tensor sums = device_decoded.cpu();
  const at::Tensor expected = at::from_blob(decoded.data(), {static_cast<int64_t>(kGradients)});
  same = at::allclose(sums, expected, 0, 0, /*equal_nan=*/true) && same;
  return same ? 0 : 1;
}

TEST(GpuCompression, EncodesAsTheHostDoes) {
  EXPECT_EQ(AwaitExit(StartGpuProcess(0,
                                      [] {
                                        int wrong = 0;
                                        for (const Compression format : kFormats) {
                                          wrong += CompareCodes(format);
                                        }
                                        return wrong;
                                      }),
                      std::chrono::seconds(120)),
            0);
}

float GradientAt(int rank, std::size_t index, int step) {
  return 0.01F * std::sin(static_cast<float>(index * 7 + static_cast<std::size_t>(rank) * 13) +
                          static_cast<float>(step));
}

// Reduces one bucket in several steps. The total must equal the sum of all ranks' gradients.
int ReduceOn(const World& world, Compression format) {
  constexpr int kSteps = 20;
  AbandonedConnects abandoned_connects;
  const auto gpu = OpenGpu(0);
  if (!gpu.ok()) return 1;
  auto communicator = (*gpu)->communicators(abandoned_connects)(world, CodecDeadline());
  const auto codec = (*gpu)->codec(format);
  if (!communicator.ok() || !codec.ok()) return 1;
  ErrorFeedback feedback(**codec, {kGradients});
  double worst = 0;
  {
    CompressedReducer reducer(**communicator, **codec, feedback);
    std::vector<double> sums(kGradients);
    for (int step = 1; step <= kSteps; ++step) {
      std::vector<float> mine(kGradients);
      for (std::size_t i = 0; i < kGradients; ++i) mine[i] = GradientAt(world.rank, i, step);
      const at::Tensor gradients = OnGpu(mine);
      feedback.Begin({.epoch = {.term = 1, .number = 1}, .step = step}, world.rank, world.size);
      const Result<void> reduced =
          reducer.Reduce(0, SpanOf<float>(gradients), {}, CodecDeadline())->Wait();
      if (!reduced.ok()) {
        std::fprintf(stderr, "%s\n", reduced.error().message.c_str());
        return 1;
      }
      feedback.Applied();
      const at::Tensor summed = gradients.cpu();
      for (std::size_t i = 0; i < kGradients; ++i) sums[i] += summed.data_ptr<float>()[i];
    }
    for (std::size_t i = 0; i < kGradients; ++i) {
      double expected = 0;
      for (int rank = 0; rank < world.size; ++rank) {
        for (int step = 1; step <= kSteps; ++step) expected += GradientAt(rank, i, step);
      }
      worst = std::max(worst, std::abs(sums[i] - expected));
    }
    reducer.Stop();
    communicator->reset();
  }
  std::fprintf(stderr, "%s: owed at most %g of sums over %d steps\n", NameOf(format), worst,
               kSteps);
  // Without error feedback, the errors of all 20 steps would add up.
  return worst < 0.25 * 0.01 * 2 * world.size ? 0 : 1;
}

TEST(GpuCompression, SumsOverStepsLoseNothing) {
  for (const Compression format : kFormats) {
    RunGpuRanks(2, [format](const World& world) { return ReduceOn(world, format); });
  }
}

}  // namespace
}  // namespace ringmaster::trainer
