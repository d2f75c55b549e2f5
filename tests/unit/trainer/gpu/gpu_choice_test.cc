#include "worker/trainer/gpu/gpu_choice.h"

#include <gtest/gtest.h>

#include "worker/trainer/train/out_of_memory.h"

namespace ringmaster::trainer {
namespace {

GpuFacts TwoH200() {
  return {.built_in = true,
          .architectures = {80, 90, 100},
          .cuda = 13020,
          .driver = 13000,
          .gpus = {{.name = "NVIDIA H200", .architecture = 90, .memory_bytes = int64_t{140} << 30},
                   {.name = "NVIDIA H200", .architecture = 90, .memory_bytes = int64_t{140} << 30}},
          .nccl = 23007};
}

std::string WhyNot(const GpuFacts& facts, const GpuRequest& request) {
  const Result<std::optional<int>> chosen = ChooseGpu(request, facts);
  return chosen.ok() ? "" : chosen.error().message;
}

TEST(GpuChoice, OneGpuForEachRankOfTheHost) {
  const auto of = [](int local_rank) {
    return ChooseGpu({.device = "cuda", .local_rank = local_rank}, TwoH200());
  };

  EXPECT_EQ(*of(0), std::optional<int>(0));
  EXPECT_EQ(*of(1), std::optional<int>(1));
  EXPECT_EQ(of(2).ok(), false);
}

// CUDA_VISIBLE_DEVICES renumbers GPUs, so it must not leave only the rank's own GPU.
TEST(GpuChoice, ARankWhoseOnlyVisibleGpuHasANumberBelowItsOwnHasNone) {
  GpuFacts facts = TwoH200();
  facts.gpus.pop_back();
  facts.visible = "1";

  EXPECT_EQ(WhyNot(facts, {.device = "cuda", .local_rank = 1}),
            "--device=cuda: this is rank 1 of its host, counted from 0, which has 1 GPU; start at "
            "most one rank per GPU");
}

// Tests a rank whose GPU the agent has chosen: no other GPU is visible to the rank.
TEST(GpuChoice, ARankWithItsOwnGpuTakesThatOrNone) {
  GpuFacts facts = TwoH200();
  facts.gpus.pop_back();
  EXPECT_EQ(*ChooseGpu({.gpus = 4, .local_rank = 3, .pinned = "GPU-7"}, facts),
            std::optional<int>(0));

  facts.gpus.clear();
  EXPECT_EQ(WhyNot(facts, {.gpus = 4, .local_rank = 3, .pinned = "GPU-7"}),
            "the job requests 4 GPUs: GPU GPU-7, which is assigned to this rank for the "
            "lifetime of its Pod, was not found");
}

TEST(GpuChoice, PtxIsForTheGpusThatComeAfterIt) {
  GpuFacts facts = TwoH200();
  facts.ptx = 120;

  facts.gpus[0].architecture = 130;
  EXPECT_EQ(*ChooseGpu({.gpus = 1}, facts), std::optional<int>(0));
  facts.gpus[0].architecture = 110;
  EXPECT_FALSE(ChooseGpu({.gpus = 1}, facts).ok());
}

TEST(GpuChoice, SharesOneWhereThatIsWanted) {
  EXPECT_EQ(*ChooseGpu({.device = "cuda", .local_rank = 3, .share = true}, TwoH200()),
            std::optional<int>(1));
}

TEST(GpuChoice, AutoIsTheCpuIfNoGpuWasAssigned) {
  EXPECT_EQ(*ChooseGpu({}, TwoH200()), std::nullopt);
  EXPECT_EQ(*ChooseGpu({.gpus = 1}, TwoH200()), std::optional<int>(0));
  EXPECT_EQ(*ChooseGpu({.device = "cpu", .gpus = 1}, {}), std::nullopt);
}

TEST(GpuChoice, NeverFallsBack) {
  const GpuRequest wanted{.gpus = 2};
  GpuFacts facts = TwoH200();

  facts.built_in = false;
  EXPECT_EQ(WhyNot(facts, wanted),
            "the job requests 2 GPUs: this build of ringmaster-train does not support GPUs; use "
            "one that is built with CUDA");
  facts = TwoH200();
  facts.driver = 0;
  EXPECT_EQ(WhyNot(facts, {.device = "cuda"}),
            "--device=cuda: no NVIDIA driver is loaded or visible in this container; request "
            "nvidia.com/gpu in the job's resources and check the node's driver");
  facts.driver = 12090;
  EXPECT_EQ(WhyNot(facts, wanted),
            "the job requests 2 GPUs: the NVIDIA driver is too old: it runs CUDA up to 12.9, and "
            "this build needs 13.2; update the node's driver");
  facts = TwoH200();
  facts.gpus.clear();
  facts.visible = "5";
  EXPECT_EQ(WhyNot(facts, wanted),
            "the job requests 2 GPUs: no GPU is visible with CUDA_VISIBLE_DEVICES=5");
  facts.visible.clear();
  facts.problem = "initialization error";
  EXPECT_EQ(
      WhyNot(facts, wanted),
      "the job requests 2 GPUs: no GPU is visible to this process (CUDA reported: initialization "
      "error); request nvidia.com/gpu in the job's resources");
  facts = TwoH200();
  facts.nccl = 0;
  facts.nccl_problem = "NCCL cannot be loaded: libnccl.so.2: no such file";
  EXPECT_EQ(
      WhyNot(facts, wanted),
      "the job requests 2 GPUs: NCCL is not available: NCCL cannot be loaded: libnccl.so.2: no "
      "such file");
}

TEST(GpuChoice, NeedsMachineCodeForTheGpu) {
  GpuFacts facts = TwoH200();

  facts.gpus[0] = {.name = "Tesla V100", .architecture = 70};
  EXPECT_EQ(WhyNot(facts, {.device = "cuda"}),
            "--device=cuda: GPU 0, Tesla V100, is sm_70, but this build has machine code for "
            "sm_80, sm_90, sm_100; build with -DCMAKE_CUDA_ARCHITECTURES=70-real");
  facts.gpus[0].architecture = 89;
  EXPECT_EQ(WhyNot(facts, {.device = "cuda"}), "") << "sm_80's runs on all 8.x";
  facts.architectures = {89};
  facts.gpus[0].architecture = 86;
  EXPECT_NE(WhyNot(facts, {.device = "cuda"}), "") << "sm_89's does not run on 8.6";
}

TEST(OutOfMemory, ReportsNeededAndFreeMemory) {
  EXPECT_EQ(
      OutOfMemorySentence("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total "
                          "capacity of 139.80 GiB of which 5.25 MiB is free. Including "
                          "non-PyTorch memory, this process has 139 GiB memory in use.",
                          "a step", "lower --global-batch"),
      "the GPU ran out of memory when 20.00 GiB were needed for a step: 5.25 MiB of 139.80 GiB "
      "were "
      "free; lower --global-batch");
  EXPECT_EQ(OutOfMemorySentence("something else", "a step", "lower --global-batch"),
            "the GPU ran out of memory when memory was needed for a step; lower --global-batch");
}

}  // namespace
}  // namespace ringmaster::trainer
