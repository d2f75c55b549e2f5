// Tests what programs do with the library between its calls. tests/runtime/library_test.cc tests
// the library as it is installed, in a job.

#include <functional>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "common/control/exit_codes.h"
#include "include/ringmaster/elastic.h"

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
