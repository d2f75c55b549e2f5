// Tests what programs do with the library between its calls. tests/runtime/library_test.cc tests
// the library as it is installed, in a job.

#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "common/control/exit_codes.h"
#include "common/control/pod_contract.h"
#include "include/ringmaster/elastic.h"
#include "tests/unit/trainer/hung_volume.h"
#include "tests/unit/trainer/temporary_folder.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBatch = 4;
constexpr int64_t kSteps = 5;

// A program that trains a model with one rank, outside of a job.
struct Program {
  torch::nn::Linear model{3, 2};
  torch::optim::SGD optimizer{model->parameters(), torch::optim::SGDOptions(0.1)};
  std::unique_ptr<Elastic> trainer;

  Program() {
    torch::NoGradGuard no_graph;
    for (torch::Tensor& parameter : model->parameters()) parameter.fill_(0.5);
    trainer = Elastic::Start(model->parameters(), {.global_batch = kBatch, .steps = kSteps});
  }
  void RestartWith(const torch::Tensor& buffer) {
    trainer.reset();
    trainer = Elastic::Start(model->parameters(),
                             {.global_batch = kBatch, .steps = kSteps, .buffers = {buffer}});
  }
  torch::Tensor Loss() {
    const auto input = torch::arange(kBatch * 3, torch::kFloat).view({kBatch, 3}) / 10;
    return (model(input + trainer->step())).square().sum();
  }
  // Calls `before` in each step, before the loss is computed.
  void Train(const std::function<void()>& before) {
    while (trainer->Begin()) {
      before();
      if (!trainer->BackwardAndReduce(Loss())) continue;
      optimizer.step();
      trainer->Applied();
    }
  }
};

TEST(Library, ZeroGradChangesNothing) {
  Program plain;
  plain.Train([] {});
  ASSERT_EQ(plain.trainer->error(), "");
  for (const bool to_none : {true, false}) {
    Program program;
    program.Train([&] { program.optimizer.zero_grad(to_none); });

    EXPECT_EQ(program.trainer->error(), "");
    EXPECT_EQ(program.trainer->step(), kSteps);
    EXPECT_TRUE(torch::equal(program.model->weight, plain.model->weight)) << to_none;
  }
}

// Trains a network with BatchNorm in micro-batches of two samples; returns its buffers. With
// `discard`, values are written into the buffers that no step is to keep.
std::vector<torch::Tensor> BuffersOfBatchNorm(bool elastic, bool discard = false) {
  torch::manual_seed(1);
  torch::nn::BatchNorm1d norm(3);
  torch::optim::SGD optimizer(norm->parameters(), torch::optim::SGDOptions(0.1));
  const std::vector<torch::Tensor> buffers{norm->running_mean, norm->running_var};
  std::unique_ptr<Elastic> trainer;
  if (elastic) {
    trainer = Elastic::Start(norm->parameters(),
                             {.global_batch = kBatch, .steps = kSteps, .buffers = buffers});
  }
  for (int64_t step = 0; !elastic || trainer->Begin().has_value(); ++step) {
    if (!elastic && step == kSteps) break;
    const auto loss = [&](int64_t half) {
      const auto input = torch::arange(6, torch::kFloat).view({2, 3}) * (step + half + 1);
      return norm(input).sin().square().sum();
    };
    if (elastic) {
      trainer->Backward(loss(0));
      EXPECT_TRUE(trainer->BackwardAndReduce(loss(1)));
      optimizer.step();
      trainer->Applied();
      if (discard) buffers[0].fill_(100);
    } else {
      optimizer.zero_grad();
      loss(0).backward();
      loss(1).backward();
      for (torch::Tensor& parameter : norm->parameters()) parameter.mutable_grad().div_(kBatch);
      optimizer.step();
    }
  }
  if (elastic) {
    EXPECT_EQ(trainer->error(), "");
    EXPECT_EQ(trainer->step(), kSteps);
  }
  return {buffers[0].clone(), buffers[1].clone()};
}

TEST(Library, BuffersAreThoseOfTheForwardPassesOfAppliedSteps) {
  const std::vector<torch::Tensor> plain = BuffersOfBatchNorm(/*elastic=*/false);
  for (const bool discard : {false, true}) {
    const std::vector<torch::Tensor> ours = BuffersOfBatchNorm(/*elastic=*/true, discard);

    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_TRUE(torch::equal(ours[i], plain[i])) << i << ": " << ours[i] << plain[i];
    }
  }
}

TEST(Library, AnotherBackwardIsNoticedBesideBuffersToo) {
  Program program;
  program.RestartWith(torch::zeros({3}));
  program.Train([&] {
    if (program.trainer->step() == 2) program.Loss().backward();
  });

  EXPECT_THAT(program.trainer->error(), HasSubstr("step 3: parameter "));
}

TEST(Library, BuffersThatCannotBeReducedAreRefusedByName) {
  Program program;
  const auto error = [&](const torch::Tensor& buffer) {
    return Elastic::Start(
               program.model->parameters(),
               {.global_batch = kBatch, .steps = kSteps, .buffers = {torch::zeros({1}), buffer}})
        ->error();
  };

  EXPECT_THAT(error(torch::zeros({1}, torch::kLong)), HasSubstr("buffer 1 is not float32"));
  EXPECT_THAT(error(torch::zeros({2, 2}).slice(1, 0, 1)), HasSubstr("buffer 1 has gaps"));
  EXPECT_THAT(error(torch::zeros({1}).set_requires_grad(true)),
              HasSubstr("buffer 1 requires a gradient"));
}

TEST(Library, ABufferThatIsResizedEndsTrainingWithItsName) {
  for (const std::string_view when : {"before the step", "in the step", "before Applied()"}) {
    Program program;
    torch::Tensor buffer = torch::zeros({3});
    program.RestartWith(buffer);
    const auto reach = [&](std::string_view now) {
      if (now == when) buffer.resize_({5});
    };

    reach("before the step");
    const bool begun = program.trainer->Begin().has_value();
    reach("in the step");
    const bool reduced = begun && program.trainer->BackwardAndReduce(program.Loss());
    reach("before Applied()");
    if (reduced) program.trainer->Applied();

    EXPECT_FALSE(program.trainer->Begin()) << when;
    EXPECT_THAT(program.trainer->error(), HasSubstr("buffer 0 was resized")) << when;
    EXPECT_EQ(program.trainer->Report(), control::kExitUserError) << when;
    EXPECT_EQ(program.trainer->step(), 0) << when;
  }
}

TEST(Library, ErrorsOfLibTorchAreNotThrown) {
  for (const bool applied : {false, true}) {
    Program program;
    torch::Tensor buffer = torch::zeros({3});
    program.RestartWith(buffer);

    const bool reduced =
        applied && program.trainer->Begin() && program.trainer->BackwardAndReduce(program.Loss());
    ASSERT_EQ(reduced, applied) << program.trainer->error();
    buffer.set_data(torch::zeros({1}).expand({3}));  // LibTorch does not write to such tensors
    if (applied) program.trainer->Applied();

    EXPECT_FALSE(program.trainer->Begin()) << applied;
    EXPECT_THAT(program.trainer->error(), HasSubstr("while computing: ")) << applied;
  }
}

TEST(Library, ATensorThatIsPassedTwiceIsRefusedByName) {
  const auto tensor = [](int64_t count) { return torch::zeros({count}).requires_grad_(true); };
  const auto error = [](const std::vector<torch::Tensor>& parameters, Elastic::Options options) {
    options.global_batch = kBatch;
    return Elastic::Start(parameters, std::move(options))->error();
  };
  const torch::Tensor tied = tensor(2);
  const torch::Tensor momentum = torch::zeros({4});

  EXPECT_THAT(error({tied, tensor(2), tensor(2), tied}, {}),
              HasSubstr("parameter 3 is parameter 0: pass each tensor once"));
  EXPECT_THAT(error({tied}, {.state = {momentum, tied.detach()}}),
              HasSubstr("state tensor 1 is parameter 0"));
  EXPECT_THAT(error({tied}, {.state = {momentum}, .buffers = {momentum}}),
              HasSubstr("buffer 0 is state tensor 0"));
  EXPECT_EQ(error({tied, tensor(0), tensor(0)},
                  {.state = {momentum.narrow(0, 0, 2), momentum.narrow(0, 2, 2)}}),
            "");
}

// Makes calls until one is out of order, and returns the error.
std::string ErrorAfter(const std::function<void(Program&, Elastic&)>& calls) {
  Program program;
  calls(program, *program.trainer);
  EXPECT_FALSE(program.trainer->Begin());
  EXPECT_EQ(program.trainer->Report(), control::kExitUserError);
  return program.trainer->error();
}

TEST(Library, CallsOutOfOrderAreRefused) {
  const auto reduce = [](Program& program) {
    EXPECT_TRUE(program.trainer->Begin() && program.trainer->BackwardAndReduce(program.Loss()));
  };

  EXPECT_THAT(
      ErrorAfter([](Program& program, Elastic& trainer) { trainer.Backward(program.Loss()); }),
      HasSubstr("step 1: Backward() was called before Begin()"));
  EXPECT_THAT(ErrorAfter([](Program& program, Elastic& trainer) {
                EXPECT_FALSE(trainer.BackwardAndReduce(program.Loss()));
              }),
              HasSubstr("step 1: BackwardAndReduce() was called before Begin()"));
  EXPECT_THAT(ErrorAfter([&](Program& program, Elastic& trainer) {
                reduce(program);
                EXPECT_FALSE(trainer.BackwardAndReduce(program.Loss()));
              }),
              HasSubstr("step 1: BackwardAndReduce() was called before Begin()"));
  EXPECT_THAT(ErrorAfter([](Program&, Elastic& trainer) {
                EXPECT_TRUE(trainer.Begin());
                trainer.Applied();
              }),
              HasSubstr("step 1: Applied() was called, but no step was reduced"));
  EXPECT_THAT(ErrorAfter([&](Program& program, Elastic& trainer) {
                reduce(program);
                trainer.Applied();
                trainer.Applied();
              }),
              HasSubstr("step 2: Applied() was called, but no step was reduced"));
  EXPECT_THAT(ErrorAfter([&](Program& program, Elastic& trainer) {
                reduce(program);
                EXPECT_FALSE(trainer.Begin());
              }),
              HasSubstr("step 1: Begin() was called before Applied()"));
}

TEST(Library, AFailedStepThatIsAppliedKeepsItsError) {
  Program program;
  ASSERT_TRUE(program.trainer->Begin());
  const float infinite = std::numeric_limits<float>::infinity();
  ASSERT_FALSE(program.trainer->BackwardAndReduce(program.Loss() * infinite));

  program.trainer->Applied();

  EXPECT_THAT(program.trainer->error(), HasSubstr("training diverged"));
  EXPECT_EQ(program.trainer->step(), 0);
}

TEST(Library, ATimeoutThatHasAlreadyPassedIsRefused) {
  const Program program;
  const auto trainer = Elastic::Start(
      program.model->parameters(),
      {.global_batch = kBatch, .steps = kSteps, .timeout = std::chrono::milliseconds(0)});

  EXPECT_THAT(trainer->error(), HasSubstr("timeout must be at least 1 ms"));
}

TEST(Library, AVolumeThatHangsDoesNotKeepTheProgramFromEnding) {
  const trainer::TemporaryFolder folder;
  ::setenv(control::kEnvCheckpointDir, folder.path().c_str(), 1);
  ::setenv(control::kEnvCheckpointEvery, "1", 1);
  Program program;
  ::unsetenv(control::kEnvCheckpointDir);
  ::unsetenv(control::kEnvCheckpointEvery);
  trainer::HungVolume volume(folder.path());
  if (!volume.mounted()) GTEST_SKIP() << "mounting needs root";
  for (int step = 0; step < 2; ++step) {  // the second step commits the first, which is then saved
    ASSERT_TRUE(program.trainer->Begin());
    ASSERT_TRUE(program.trainer->BackwardAndReduce(program.Loss()));
    program.trainer->Applied();
  }

  auto ended = std::async(std::launch::async, [&] { program.trainer.reset(); });
  EXPECT_EQ(ended.wait_for(std::chrono::seconds(60)), std::future_status::ready);

  volume.Heal();
}

TEST(Library, AnotherBackwardEndsTrainingWithAMessage) {
  Program program;
  program.Train([&] {
    if (program.trainer->step() == 2) program.Loss().backward();
  });

  EXPECT_THAT(program.trainer->error(), HasSubstr("step 3: parameter "));
  EXPECT_THAT(program.trainer->error(), HasSubstr("call no other backward()"));
  EXPECT_EQ(program.trainer->Report(), control::kExitUserError);
}

TEST(Library, WeightsThatAreLoadedIntoOtherMemoryEndTrainingWithAMessage) {
  Program program;
  program.Train([&] { program.model->weight.set_data(torch::ones({2, 3})); });

  EXPECT_THAT(program.trainer->error(), HasSubstr("step 1: the data of parameter 0 was replaced"));
  EXPECT_EQ(program.trainer->Report(), control::kExitUserError);
}

}  // namespace
}  // namespace ringmaster
