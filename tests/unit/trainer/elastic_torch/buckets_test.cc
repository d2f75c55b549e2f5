#include "worker/trainer/elastic_torch/buckets.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmaster::trainer {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Three layers in a row, with weights of 6, 12 and 4 elements.
struct Model {
  std::vector<at::Tensor> parameters;

  Model() {
    const auto leaf = [](at::IntArrayRef sizes) {
      int64_t count = 1;
      for (const int64_t size : sizes) count *= size;
      return at::arange(1, count + 1, at::kFloat).div(10).view(sizes).requires_grad_(true);
    };
    parameters = {leaf({3, 2}), leaf({4, 3}), leaf({1, 4})};
  }

  at::Tensor Loss(const at::Tensor& input) const {
    at::Tensor x = input;
    for (const at::Tensor& weight : parameters) x = at::tanh(at::linear(x, weight));
    return x.sum();
  }
};

at::Tensor Input() { return at::arange(0, 10, at::kFloat).view({5, 2}).div(7); }

TEST(Buckets, GradientsEqualPlainAutograd) {
  const Model plain;
  plain.Loss(Input()).backward();
  Model bucketed;
  Buckets buckets(bucketed.parameters, {.first_bytes = 16, .bytes = 40});

  for (int repeat = 0; repeat < 2; ++repeat) {  // the second step must not add to the first
    buckets.Arm([](int) {});
    bucketed.Loss(Input()).backward();
    buckets.Flush();
  }

  for (std::size_t i = 0; i < plain.parameters.size(); ++i) {
    EXPECT_TRUE(at::equal(bucketed.parameters[i].grad(), plain.parameters[i].grad())) << i;
    EXPECT_TRUE(at::equal(bucketed.parameters[i], plain.parameters[i])) << i;
  }
}

TEST(Buckets, OfSeveralBackwardsAreCompleteWithTheLast) {
  const Model plain;
  const at::Tensor whole = plain.Loss(Input());
  whole.backward();
  Model model;
  Buckets buckets(model.parameters, {.first_bytes = 16, .bytes = 40});
  std::vector<int> ready;
  buckets.Arm([&](int index) { ready.push_back(index); });
  buckets.ExpectAnotherBackward();
  buckets.ExpectAnotherBackward();

  for (const auto& [begin, count] : {std::pair{0, 2}, std::pair{2, 2}, std::pair{4, 1}}) {
    EXPECT_THAT(ready, ElementsAre()) << begin;
    model.Loss(Input().narrow(0, begin, count)).backward();
  }

  EXPECT_THAT(ready, ElementsAre(0, 1, 2)) << "while the last backward went on, or at its end";
  for (std::size_t i = 0; i < plain.parameters.size(); ++i) {
    EXPECT_TRUE(at::allclose(model.parameters[i].grad(), plain.parameters[i].grad())) << i;
  }
}

// zero_grad() of a model or optimizer resets gradients, and autograd then allocates new ones.
TEST(Buckets, GradientsThatWereResetAreReducedAllTheSame) {
  const Model plain;
  plain.Loss(Input()).backward();
  for (const bool before_arming : {true, false}) {
    Model model;
    Buckets buckets(model.parameters, {.first_bytes = 16, .bytes = 40});
    const auto reset = [&] {
      for (at::Tensor& parameter : model.parameters) parameter.mutable_grad().reset();
    };

    if (before_arming) reset();
    buckets.Arm([](int) {});
    if (!before_arming) reset();
    model.Loss(Input()).backward();
    buckets.Flush();
    EXPECT_EQ(buckets.Misuse(), "");
    buckets.flat_gradients().mul_(2);  // as reducing does

    for (std::size_t i = 0; i < plain.parameters.size(); ++i) {
      EXPECT_TRUE(at::equal(model.parameters[i].grad(), plain.parameters[i].grad() * 2)) << i;
    }
  }
}

TEST(Buckets, AParameterWithoutAGradientOfItsOwnHasTheReducedOne) {
  Model model;
  Buckets buckets(model.parameters, {});
  buckets.Arm([](int) {});
  model.parameters[0].mutable_grad().reset();
  buckets.Flush();
  buckets.flat_gradients().fill_(3);

  ASSERT_TRUE(model.parameters[0].grad().defined());
  EXPECT_EQ(model.parameters[0].grad().view(-1)[0].item<float>(), 3);
}

TEST(Buckets, ABackwardThatWasNotAnnouncedIsNamed) {
  Model model;
  Buckets buckets(model.parameters, {.first_bytes = 16, .bytes = 40});
  for (const int announced : {0, 1}) {
    buckets.Arm([](int) {});
    for (int pass = 0; pass < announced; ++pass) buckets.ExpectAnotherBackward();
    for (int pass = 0; pass <= announced; ++pass) model.Loss(Input()).backward();
    EXPECT_EQ(buckets.Misuse(), "") << announced;
    model.Loss(Input()).backward();
    EXPECT_THAT(buckets.Misuse(), HasSubstr("call no other backward()")) << announced;
    buckets.Flush();
  }
  buckets.Arm([](int) {});
  EXPECT_EQ(buckets.Misuse(), "") << "in the next step";
}

TEST(Buckets, AParameterWhoseDataWasReplacedIsNamed) {
  Model model;
  Buckets buckets(model.parameters, {});
  buckets.Arm([](int) {});
  model.parameters[1].set_data(model.parameters[1].detach().clone());

  model.Loss(Input()).backward();

  EXPECT_THAT(buckets.Misuse(), HasSubstr("the data of parameter 1 was replaced"));
}

TEST(Buckets, AllReducedValuesAreInTheProvidedMemory) {
  Model model;
  std::vector<float> given(3 * 64 + 4 + 1, 7);
  Buckets buckets(model.parameters, {.first_bytes = 16, .bytes = 40, .scalars = 4},
                  [&](std::size_t bytes) -> void* {
                    EXPECT_EQ(bytes, given.size() * sizeof(float));
                    return given.data();
                  });

  EXPECT_THAT(given, Each(0));
  model.Loss(Input()).backward();
  buckets.SetScalar(3, 5);

  EXPECT_EQ(buckets.Bucket(0).memory().data(), std::as_bytes(std::span(given)).data());
  EXPECT_EQ(given[0], model.parameters[2].grad().view(-1)[0].item<float>());
  EXPECT_NE(given[0], 0);
  EXPECT_EQ(given[3 * 64 + 3], 5);
}

// The allocator of a GPU also returns memory at multiples of 256 bytes.
TEST(Buckets, EveryParameterGradientAndBucketBeginsAtAMultipleOf256Bytes) {
  std::vector<at::Tensor> parameters;
  for (const int64_t count : {1, 63, 64, 65, 7, 1000, 3}) {
    parameters.push_back(at::ones({count}).requires_grad_(true));
  }
  alignas(256) std::array<float, 2048> given{};
  Buckets buckets(parameters, {.first_bytes = 16, .bytes = 300},
                  [&](std::size_t) -> void* { return given.data(); });
  const auto* const first = static_cast<const float*>(buckets.flat_parameters().data_ptr());

  for (const at::Tensor& parameter : parameters) {
    EXPECT_EQ((parameter.data_ptr<float>() - first) % 64, 0) << parameter.numel();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(parameter.grad().data_ptr()) % 256, 0U)
        << parameter.numel();
  }
  for (int bucket = 0; bucket < buckets.count(); ++bucket) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buckets.Bucket(bucket).memory().data()) % 256, 0U)
        << bucket;
  }
  EXPECT_EQ(buckets.flat_parameters().sum().item<float>(), 1203) << "what lies between is zero";
}

TEST(Buckets, ParametersAndGradientsKeepTheMemoryFormat) {
  const at::Tensor values = at::arange(48, at::kFloat).view({2, 6, 2, 2});
  const at::Tensor kernel = values.contiguous(at::MemoryFormat::ChannelsLast).requires_grad_(true);
  const at::Tensor with_gaps = at::ones({2, 4}).slice(1, 0, 2).requires_grad_(true);

  const Buckets buckets({kernel, with_gaps}, {});
  (kernel * values).sum().backward();

  EXPECT_TRUE(at::equal(kernel, values));
  EXPECT_TRUE(at::equal(kernel.grad(), values));
  EXPECT_EQ(kernel.strides(), kernel.grad().strides());
  EXPECT_TRUE(kernel.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_EQ(buckets.flat_parameters()[64 + 1].item<float>(), values[0][1][0][0].item<float>());
  EXPECT_TRUE(with_gaps.is_contiguous());
  EXPECT_EQ(FormatOf(kernel), "float32 [2,6,2,2] with strides [24,1,12,6]");
  EXPECT_EQ(FormatOf(values), "float32 [2,6,2,2]");
}

TEST(Buckets, FlatMemoryIsTheParametersInReverse) {
  Model model;
  const Buckets buckets(model.parameters, {});

  EXPECT_EQ(buckets.flat_parameters().numel(), 3 * 64);
  EXPECT_EQ(buckets.flat_parameters()[0].item<float>(),
            model.parameters[2].view(-1)[0].item<float>());
  buckets.flat_parameters().fill_(5);
  EXPECT_EQ(model.parameters[0].view(-1)[3].item<float>(), 5);
}

TEST(Buckets, AveragesStayTogetherBesideTheScalars) {
  Model model;  // the first parameter, of 6 values, and the second, of 12, are averages
  Buckets buckets(model.parameters,
                  {.first_bytes = 4, .bytes = 4, .scalars = 3, .averages = 2 * 64});

  EXPECT_EQ(buckets.count(), 1) << "a bucket of nothing but averages is none";
  EXPECT_EQ(buckets.Bucket(0).count, 3U * 64 + 3);
  EXPECT_EQ(buckets.exact_count(buckets.count() - 1), 2U * 64 + 3);
  buckets.flat_gradients().fill_(8);
  EXPECT_TRUE(buckets.ToMeans(4).finite);
  EXPECT_TRUE(at::equal(buckets.flat_gradients().narrow(0, 0, 64), at::full({64}, 2.0F)));
  EXPECT_TRUE(at::equal(buckets.flat_gradients().narrow(0, 64, 128), at::full({128}, 8.0F)))
      << "of averages";
}

TEST(Buckets, HandsOutBucketsInOrderWhileBackwardRuns) {
  Model model;
  Buckets buckets(model.parameters, {.first_bytes = 16, .bytes = 40, .scalars = 2});
  ASSERT_EQ(buckets.count(), 3);
  std::vector<int> ready;
  std::vector<bool> later_gradients_were_missing;

  buckets.Arm([&](int index) {
    ready.push_back(index);
    later_gradients_were_missing.push_back(model.parameters[0].grad().abs().sum().item<float>() ==
                                           0);
  });
  model.Loss(Input()).backward();

  EXPECT_THAT(ready, ElementsAre(0, 1, 2));
  EXPECT_THAT(later_gradients_were_missing, ElementsAre(true, true, false));
  buckets.Flush();
  EXPECT_EQ(ready.size(), 3U);
}

TEST(Buckets, FlushCompletesBucketsThatBackwardDidNotFill) {
  Model model;
  Buckets buckets(model.parameters, {.first_bytes = 16, .bytes = 40});
  std::vector<int> ready;

  buckets.Arm([&](int index) { ready.push_back(index); });
  model.parameters[0].sum().backward();  // fills only the last bucket, which waits for the first
  EXPECT_TRUE(ready.empty());
  buckets.Flush();

  EXPECT_THAT(ready, ElementsAre(0, 1, 2));
}

TEST(Buckets, ScalarsTravelWithTheLastBucket) {
  Model model;
  Buckets buckets(model.parameters, {.first_bytes = 16, .bytes = 40, .scalars = 3});

  buckets.SetScalar(2, 8);

  EXPECT_EQ(buckets.Bucket(0).count, 64U);
  EXPECT_EQ(buckets.Bucket(1).count, 64U);
  EXPECT_EQ(buckets.Bucket(2).count, 64U + 3U);
  EXPECT_THAT(buckets.ToMeans(2).scalars, ElementsAre(0, 0, 8));
  buckets.Arm([](int) {});
  EXPECT_THAT(buckets.ToMeans(2).scalars, Each(0));
}

TEST(Buckets, MeansAreNotFiniteWhereAGradientIsNot) {
  Model model;
  Buckets buckets(model.parameters, {});

  for (const float wrong : {NAN, INFINITY}) {
    buckets.Arm([](int) {});
    EXPECT_TRUE(buckets.ToMeans(2).finite);
    model.parameters[1].mutable_grad()[2][1] = wrong;
    EXPECT_FALSE(buckets.ToMeans(2).finite);
  }
}

// Tests the code path for GPUs.
TEST(ScaleAndCheck, OnePassScalesTheFirstAndLooksAtAll) {
  const at::Tensor start = at::arange(1, 8, at::kFloat);
  const at::Tensor factors = at::tensor({0.25F, 1.0F});
  const at::Tensor expected = start * at::tensor({0.25F, 0.25F, 0.25F, 0.25F, 0.25F, 1.0F, 1.0F});

  const at::Tensor values = start.clone();
  at::Tensor not_finite = at::zeros({1});
  ScaleAndCheck(values, 5, factors, not_finite);
  EXPECT_TRUE(at::equal(values, expected));
  EXPECT_EQ(not_finite.item<float>(), 0);

  for (const int64_t place : {0, 4, 5, 6}) {
    for (const float wrong : {NAN, INFINITY, -INFINITY}) {
      at::Tensor some = start.clone();
      some[place] = wrong;
      not_finite.zero_();
      ScaleAndCheck(some, 5, factors, not_finite);
      EXPECT_EQ(not_finite.item<float>(), 1) << wrong << " at " << place;
    }
  }
}

TEST(Buckets, ParametersOutliveThem) {
  Model model;
  { const Buckets buckets(model.parameters, {}); }

  model.Loss(Input()).backward();

  EXPECT_GT(model.parameters[0].grad().abs().sum().item<float>(), 0);
}

}  // namespace
}  // namespace ringmaster::trainer
