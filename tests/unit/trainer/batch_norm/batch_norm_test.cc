// Compares our batch normalisation with LibTorch's in double precision. Tests the code for the host
// and the GPU kernels, which run on the host here.

#include "worker/trainer/batch_norm/batch_norm.h"

#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "worker/trainer/batch_norm/host_norm.h"
#if defined(RINGMASTER_KERNELS_ON_HOST)
#include "worker/trainer/gpu/kernel_norm.h"
#endif

namespace ringmaster::trainer {
namespace {

enum class Then { kNothing, kPrelu, kShortcut };

constexpr double kShare = 0.25;
constexpr double kEpsilon = 1e-5;

struct Layer {
  at::Tensor x, weight, bias, slope, shortcut, y_gradient;
};

struct Made {
  at::Tensor y, mean, variance;
  std::vector<at::Tensor> gradients;  // gradients of x, weight, bias, and slope or shortcut
};

at::Tensor Leaf(const at::Tensor& values) { return values.detach().clone().requires_grad_(true); }

// Makes a layer with random values. A large `mean` shows whether sums of squares lose precision.
Layer MakeLayer(at::IntArrayRef sizes, at::ScalarType type, Then then, double mean) {
  at::manual_seed(7);
  const int64_t channels = sizes[1];
  const auto rounded = [&](const at::Tensor& values) { return values.to(type); };
  Layer layer{.x = rounded(at::randn(sizes) * 2 + mean),
              .weight = at::rand({channels}) + 0.5,
              .bias = at::randn({channels}),
              .slope = {},
              .shortcut = {},
              .y_gradient = rounded(at::randn(sizes))};
  if (then == Then::kPrelu) layer.slope = at::rand({channels});
  if (then == Then::kShortcut) layer.shortcut = rounded(at::randn(sizes));
  return layer;
}

using Arithmetic = std::shared_ptr<const NormArithmetic>;

// Runs the layer forward and backward with `ours`; null: with LibTorch's batch normalisation.
Made GoThere(const Layer& given, const Arithmetic& ours, at::ScalarType parameters) {
  const auto leaf = [](const at::Tensor& values, at::ScalarType type) {
    return values.defined() ? Leaf(values.to(type)) : at::Tensor();
  };
  const at::ScalarType values = ours != nullptr ? given.x.scalar_type() : at::kDouble;
  const at::Tensor x = leaf(given.x, values);
  const at::Tensor weight = leaf(given.weight, parameters);
  const at::Tensor bias = leaf(given.bias, parameters);
  const at::Tensor slope = leaf(given.slope, parameters);
  const at::Tensor shortcut = leaf(given.shortcut, values);
  Made made{.y = {},
            .mean = at::zeros({x.size(1)}, parameters),
            .variance = at::zeros({x.size(1)}, parameters),
            .gradients = {}};
  if (ours != nullptr) {
    made.y = BatchNormalise(ours, x,
                            {.weight = weight,
                             .bias = bias,
                             .running_mean = made.mean,
                             .running_variance = made.variance,
                             .share = kShare,
                             .epsilon = kEpsilon},
                            slope, shortcut);
  } else {
    made.y = std::get<0>(
        at::native_batch_norm(x, weight, bias, made.mean, made.variance, true, kShare, kEpsilon));
    if (slope.defined()) made.y = at::prelu(made.y, slope);
    if (shortcut.defined()) made.y = made.y + shortcut;
  }
  made.y.backward(given.y_gradient.to(values));
  for (const at::Tensor& tensor : {x, weight, bias, slope, shortcut}) {
    if (tensor.defined()) made.gradients.push_back(tensor.grad());
  }
  made.y = made.y.detach();
  return made;
}

// Returns the relative error of the whole tensor. Single values near the PReLU's bend differ more.
double Apart(const at::Tensor& made, const at::Tensor& expected) {
  return ((made.to(at::kDouble) - expected).norm() / expected.norm()).item<double>();
}

void Compare(const Arithmetic& ours, const Layer& layer, double most) {
  const Made expected = GoThere(layer, nullptr, at::kDouble);
  const Made made = GoThere(layer, ours, at::kFloat);
  EXPECT_EQ(made.y.scalar_type(), layer.x.scalar_type());
  EXPECT_LT(Apart(made.y, expected.y), most);
  EXPECT_LT(Apart(made.mean, expected.mean), 1e-5);
  EXPECT_LT(Apart(made.variance, expected.variance), 1e-5);
  ASSERT_EQ(made.gradients.size(), expected.gradients.size());
  for (std::size_t i = 0; i < made.gradients.size(); ++i) {
    SCOPED_TRACE("gradient " + std::to_string(i));
    EXPECT_EQ(made.gradients[i].sizes(), expected.gradients[i].sizes());
    EXPECT_LT(Apart(made.gradients[i], expected.gradients[i]), most);
  }
}

double MostApart(at::ScalarType type) {
  return type == at::kFloat ? 1e-5 : type == at::kHalf ? 1e-3 : 1e-2;
}

struct Kind {
  std::string name;
  Arithmetic arithmetic;
  std::vector<at::ScalarType> types;
};

std::vector<Kind> AllKinds() {
  std::vector<Kind> all{{.name = "Host", .arithmetic = HostNorm(), .types = {at::kFloat}}};
#if defined(RINGMASTER_KERNELS_ON_HOST)
  all.push_back({.name = "Kernels",
                 .arithmetic = KernelNorm({.device = at::kCPU, .stream = [] { return nullptr; }}),
                 .types = {at::kFloat, at::kHalf, at::kBFloat16}});
#endif
  return all;
}

class BatchNorms : public testing::TestWithParam<Kind> {
 protected:
  void Compare(const Layer& layer, double most) const {
    trainer::Compare(GetParam().arithmetic, layer, most);
  }
};

INSTANTIATE_TEST_SUITE_P(By, BatchNorms, testing::ValuesIn(AllKinds()),
                         [](const auto& kind) { return kind.param.name; });

const std::vector<Then> kAllThen{Then::kNothing, Then::kPrelu, Then::kShortcut};

TEST_P(BatchNorms, GivesWhatLibTorchGives) {
  // 2304 channels need more threads than a block has; with 24 channels, some threads have no work.
  const std::vector<std::vector<int64_t>> forms{{5, 8, 1, 1}, {3, 24, 5, 7}, {2, 64, 9, 11},
                                                {33, 16},     {6, 2304},     {5, 2304, 2, 1}};
  for (const auto& sizes : forms) {
    for (const at::ScalarType type : GetParam().types) {
      for (const Then then : kAllThen) {
        SCOPED_TRACE(testing::Message()
                     << at::IntArrayRef(sizes) << type << static_cast<int>(then));
        Compare(MakeLayer(sizes, type, then, 0.5), MostApart(type));
      }
    }
  }
}

// With 4500 rows, each block processes more than four rows.
TEST_P(BatchNorms, GoesRoundTheGridAgain) {
  Compare(MakeLayer({4500, 1024}, at::kFloat, Then::kPrelu, 0.5), MostApart(at::kFloat));
}

TEST_P(BatchNorms, AMeanFarFromNothingCostsNoPrecision) {
  Compare(MakeLayer({8, 16, 9, 9}, at::kFloat, Then::kNothing, 1000), 1e-3);
}

TEST_P(BatchNorms, TakesTensorsOfEveryOrder) {
  Layer layer = MakeLayer({3, 16, 6, 6}, at::kFloat, Then::kShortcut, 0);
  layer.x = layer.x.contiguous(at::MemoryFormat::ChannelsLast);
  layer.shortcut = layer.shortcut.transpose(2, 3);
  layer.y_gradient = layer.y_gradient.transpose(2, 3);
  Compare(layer, 1e-5);
}

TEST_P(BatchNorms, GivesTheSameBitsAgainOnAnyNumberOfThreads) {
  const Layer layer = MakeLayer({7, 64, 10, 11}, GetParam().types.back(), Then::kPrelu, 0);
  const Made one = GoThere(layer, GetParam().arithmetic, at::kFloat);
  const int threads = at::get_num_threads();
  at::set_num_threads(threads == 1 ? 2 : 1);
  const Made other = GoThere(layer, GetParam().arithmetic, at::kFloat);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(one.y, other.y));
  for (std::size_t i = 0; i < one.gradients.size(); ++i) {
    EXPECT_TRUE(at::equal(one.gradients[i], other.gradients[i]));
  }
}

}  // namespace
}  // namespace ringmaster::trainer
