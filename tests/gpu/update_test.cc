// Tests that the trainer computes the same on a GPU as on the CPU.

#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/gpu/gpu_ranks.h"
#include "worker/trainer/backbones/backbone.h"
#include "worker/trainer/elastic_torch/buckets.h"
#include "worker/trainer/optim/sgd.h"
#include "worker/trainer/workloads/mnist.h"

namespace ringmaster::trainer {
namespace {

int Wrong(bool right, const char* what) {
  if (!right) std::fprintf(stderr, "%s: wrong\n", what);
  return right ? 0 : 1;
}

int InAProcess(const std::function<int()>& body) {
  return AwaitExit(StartGpuProcess(0, body), std::chrono::seconds(120));
}

TEST(GpuUpdate, GivesWhatTheCpuGives) {
  EXPECT_EQ(InAProcess([] {
              SgdOptions options{.learning_rate = 0.1, .total_steps = 10, .weight_decay = 0.01};
              SgdOptions on_device = options;
              options.loss_scale = std::make_shared<LossScale>(at::kCPU);
              on_device.loss_scale = std::make_shared<LossScale>(at::kCUDA);
              const at::Tensor parameters = at::randn({100'003});
              const at::Tensor gradients = at::randn({100'003}) * LossScale::kFirst;
              const at::Tensor on_gpu = parameters.to("cuda");
              Sgd host(parameters, gradients, options);
              Sgd device(on_gpu, gradients.to("cuda"), on_device);
              for (int64_t step = 0; step < 5; ++step) {
                host.Step(step);
                device.Step(step);
              }
              device.mirror()->Pull();
              const TrainableState seen = device.state();
              const at::Tensor pulled = at::from_blob(seen[0].data(), {100'003}).clone();
              int wrong = Wrong(at::allclose(parameters, pulled, 1e-5, 1e-6), "the update");

              seen[0][7] = 42;
              device.mirror()->Push();
              wrong += Wrong(on_gpu[7].item<float>() == 42, "what was pushed");
              return wrong;
            }),
            0);
}

struct Step {
  double loss = 0;
  at::Tensor gradients;
};

Step FirstStepOn(const std::string& device) {
  const auto workload =
      MakeMnist(GeneratedDigits(1, 512, 64), {.seed = 1, .global_batch = 64, .device = device});
  Buckets buckets(workload->parameters(), {});
  LoneCollectives alone;
  buckets.Arm([](int) {});
  workload->Load(0, ShareOf(0, 1, 64));
  const Result<double> loss = workload->Forward(alone);
  const at::Tensor* const on_device = workload->device_loss();
  if (on_device != nullptr) {
    buckets.SetScalar(0, *on_device);
  } else {
    buckets.SetScalar(0, *loss);
  }
  const bool computed = workload->Backward(alone).ok();
  buckets.Flush();
  const Buckets::Means means = buckets.ToMeans(64);
  return {.loss = computed && means.finite ? means.scalars[0] : -1,
          .gradients = buckets.flat_gradients().cpu()};
}

// Tests that a step with gradients that are not finite is skipped.
TEST(GpuBuckets, MeansAreTheCpusAndWhatIsNotFiniteIsFound) {
  EXPECT_EQ(InAProcess([] {
              int wrong = 0;
              std::vector<at::Tensor> means;
              for (const at::Device device : {at::Device("cpu"), at::Device("cuda:0")}) {
                const at::Tensor weights = at::ones({300}, device).requires_grad_(true);
                const at::Tensor averages = at::ones({70}, device).requires_grad_(true);
                Buckets buckets({averages, weights}, {.averages = 128});
                buckets.Arm([](int) {});
                buckets.SetScalar(0, 3);
                buckets.flat_gradients().copy_(at::arange(448, at::kFloat));
                const Buckets::Means finite = buckets.ToMeans(7);
                wrong += Wrong(finite.finite && finite.scalars[0] == 3, "what is finite");
                means.push_back(buckets.flat_gradients().cpu().clone());
                for (const int64_t place : {0, 319, 320, 447}) {
                  buckets.Arm([](int) {});
                  buckets.flat_gradients()[place] = NAN;
                  wrong += Wrong(!buckets.ToMeans(7).finite, "what is not finite");
                }
              }
              return wrong + Wrong(at::equal(means[0], means[1]), "the means");
            }),
            0);
}

TEST(GpuMnist, LossAndGradientsAreTheCpus) {
  EXPECT_EQ(InAProcess([] {
              at::globalContext().setAllowTF32CuDNN(false);  // TF32, the default, is less exact
              const Step host = FirstStepOn("cpu");
              const Step device = FirstStepOn("cuda:0");
              return Wrong(std::abs(host.loss - device.loss) < 1e-3 * std::abs(host.loss), "loss") +
                     Wrong(at::allclose(host.gradients, device.gradients, 1e-3, 1e-3), "gradients");
            }),
            0);
}

// Returns all gradients of a backbone, first the gradients of the running statistics.
at::Tensor BackbonesGradientsOn(const std::string& device) {
  const auto backbone = MakeBackbone("r18", {.shape = {.channels = 3, .side = 32},
                                             .dimension = 64,
                                             .seed = 4,
                                             .global_batch = 8,
                                             .device = at::Device(device)});
  std::vector<at::Tensor> all;
  int64_t averages = 0;
  for (const NamedTensor& average : backbone->averages()) {
    all.push_back(average.tensor);
    averages += average.tensor.numel();
  }
  for (const NamedTensor& parameter : backbone->parameters()) all.push_back(parameter.tensor);
  Buckets buckets(all, {.averages = averages});
  buckets.Arm([](int) {});
  const at::Tensor images = at::arange(8 * 3 * 32 * 32, at::kFloat).reshape({8, 3, 32, 32}).sin();
  backbone->Forward(images.to(device), true).square().sum().backward();
  buckets.Flush();
  return buckets.flat_gradients().cpu();
}

TEST(GpuBackbone, GradientsAndRunningStatisticsAreTheCpus) {
  EXPECT_EQ(InAProcess([] {
              at::globalContext().setAllowTF32CuDNN(false);
              const at::Tensor host = BackbonesGradientsOn("cpu");
              const double off = (BackbonesGradientsOn("cuda:0") - host).norm().item<double>();
              std::printf("r18: %g of the gradients' norm apart\n",
                          off / host.norm().item<double>());
              return Wrong(off < 1e-3 * host.norm().item<double>(), "gradients");
            }),
            0);
}

}  // namespace
}  // namespace ringmaster::trainer
