// An autoencoder that learns waves, as a rank of a Ringmaster job: autoencoder [STEPS].

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include <ringmaster/elastic.h>
#include <torch/torch.h>

namespace {

constexpr int64_t kGlobalBatch = 64;
constexpr int64_t kPoints = 32;  // number of points of a wave
constexpr int64_t kCode = 4;     // number of values that the network reduces a wave to
constexpr double kMomentum = 0.9;

// The samples of a step depend only on its number, so every rank computes the same samples.
torch::Tensor Waves(int64_t step, ringmaster::Elastic::Share share) {
  const auto sample = torch::arange(share.begin, share.end).add(step * kGlobalBatch).unsqueeze(1);
  const auto phase = sample * 0.618;
  const auto frequency = 1 + sample.remainder(5);
  return torch::sin(phase + frequency * torch::arange(kPoints) * (2 * M_PI / kPoints));
}

// SGD allocates momentum in its first step, but a rank that joins receives momentum earlier.
std::vector<torch::Tensor> MakeMomentum(torch::optim::SGD& optimizer) {
  std::vector<torch::Tensor> made;
  for (const torch::Tensor& parameter : optimizer.param_groups().front().params()) {
    auto state = std::make_unique<torch::optim::SGDParamState>();
    made.push_back(torch::zeros_like(parameter));
    state->momentum_buffer(made.back());
    optimizer.state()[parameter.unsafeGetTensorImpl()] = std::move(state);
  }
  return made;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 2000;
  torch::manual_seed(1);  // all ranks begin with the same parameters
  torch::nn::BatchNorm1d norm(16);
  torch::nn::Sequential model(torch::nn::Linear(kPoints, 16), norm, torch::nn::Tanh(),
                              torch::nn::Linear(16, kCode), torch::nn::Linear(kCode, 16),
                              torch::nn::Tanh(), torch::nn::Linear(16, kPoints));
  torch::optim::SGD optimizer(model->parameters(),
                              torch::optim::SGDOptions(0.02).momentum(kMomentum));

  auto trainer = ringmaster::Elastic::Start(model->parameters(),
                                            {.global_batch = kGlobalBatch,
                                             .steps = steps,
                                             .state = MakeMomentum(optimizer),
                                             .buffers = {norm->running_mean, norm->running_var},
                                             .settings = "learning_rate=0.02\nmomentum=0.9\n"});
  const auto loss = [&](ringmaster::Elastic::Share samples) {
    const auto waves = Waves(trainer->step(), samples);
    return torch::mse_loss(model->forward(waves), waves, at::Reduction::Sum) / kPoints;
  };
  while (auto share = trainer->Begin()) {
    // The share grows if other ranks are lost; this loop limits the memory for a large share.
    while (share->size() > trainer->micro_batch()) {
      trainer->Backward(loss(share->Take(trainer->micro_batch())));
    }
    if (!trainer->BackwardAndReduce(loss(*share))) continue;
    // Set a scheduled learning rate here from step(), and with Adam the step count of each state.
    optimizer.step();
    trainer->Applied();
    if (trainer->rank() == 0 && trainer->step() % 100 == 0) {
      std::printf("step %lld: loss %.4f on %d ranks\n", static_cast<long long>(trainer->step()),
                  trainer->loss(), trainer->world_size());
      std::fflush(stdout);
    }
  }
  return trainer->Report();
}
