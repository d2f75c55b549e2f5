#include "worker/agent/process_table/rank_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/pod_contract.h"
#include "common/control/protocol_version.h"

namespace ringmaster::agent {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

Config TwoSlots() {
  Config config;
  config.spec.command = {"ringmaster-train"};
  config.spec.slots_per_worker = 2;
  config.runtime_dir = "/r";
  config.container = {{"NCCL_DEBUG", "INFO"}, {"RINGMASTER_ITEM_SHA256", "{}"}};
  return config;
}

TEST(RankEnvironment, HasTheContainersVariablesAndTheSlotsOwn) {
  const auto environment = RankEnvironment(TwoSlots(), 1, 8);

  EXPECT_THAT(environment, Contains("NCCL_DEBUG=INFO"));
  EXPECT_THAT(environment, Contains("RINGMASTER_AGENT_SOCKET=/r/agent.sock"));
  EXPECT_THAT(environment, Contains("RINGMASTER_SLOT=1"));
  EXPECT_THAT(environment,
              Contains("RINGMASTER_PROTOCOL=" + std::to_string(control::kProtocolVersion)));
  EXPECT_THAT(environment, Contains("LOCAL_RANK=1"));
  EXPECT_THAT(environment, Contains("LOCAL_WORLD_SIZE=2"));
  EXPECT_THAT(environment, Contains("OMP_NUM_THREADS=4"));
  EXPECT_THAT(environment, Not(Contains(HasSubstr("SHA256"))));
}

TEST(RankEnvironment, ARankSeesItsOwnGpusAlone) {
  Config config = TwoSlots();
  config.container["CUDA_VISIBLE_DEVICES"] = "0,1";

  const auto pinned = RankEnvironment(config, 1, 8, "", "GPU-1,GPU-3");
  EXPECT_THAT(pinned, Contains("CUDA_VISIBLE_DEVICES=GPU-1,GPU-3"));
  EXPECT_THAT(pinned, Contains("RINGMASTER_GPU_UUID=GPU-1"));

  const auto free = RankEnvironment(config, 1, 8);
  EXPECT_THAT(free, Contains("CUDA_VISIBLE_DEVICES=0,1"));
  EXPECT_THAT(free, Not(Contains(HasSubstr("GPU_UUID"))));
}

TEST(RankEnvironment, HasTheJobsConnectTimeout) {
  Config config = TwoSlots();
  config.container[control::kEnvConnectTimeoutSeconds] = "90";

  EXPECT_THAT(RankEnvironment(config, 0, 8), Contains("RINGMASTER_CONNECT_TIMEOUT_SECONDS=90"));
}

TEST(RankEnvironment, NamesThePageOfThisRankAlone) {
  Config config = TwoSlots();
  config.container["RINGMASTER_POSITION_PAGE"] = "/of/somebody/else";

  EXPECT_THAT(RankEnvironment(config, 1, 8, "/proc/1/fd/9"),
              Contains("RINGMASTER_POSITION_PAGE=/proc/1/fd/9"));
  EXPECT_THAT(RankEnvironment(config, 1, 8), Not(Contains(HasSubstr("POSITION_PAGE"))));
}

TEST(RankEnvironment, LeavesTheUsersThreadCountAlone) {
  Config config = TwoSlots();
  config.container["OMP_NUM_THREADS"] = "3";

  EXPECT_THAT(RankEnvironment(config, 0, 8), Contains("OMP_NUM_THREADS=3"));
}

TEST(RankEnvironment, SetsInterfacesOfNcclAndGlooUnlessTheContainerDoes) {
  Config config = TwoSlots();
  EXPECT_THAT(RankEnvironment(config, 0, 8), Not(Contains(HasSubstr("SOCKET_IFNAME"))));

  config.spec.interfaces.include = {"ib0", "ib1"};
  EXPECT_THAT(RankEnvironment(config, 0, 8), Contains("NCCL_SOCKET_IFNAME==ib0,ib1"));
  EXPECT_THAT(RankEnvironment(config, 0, 8), Contains("GLOO_SOCKET_IFNAME=ib0,ib1"));

  config.container["NCCL_SOCKET_IFNAME"] = "eth";
  config.container["GLOO_SOCKET_IFNAME"] = "eth0";
  EXPECT_THAT(RankEnvironment(config, 0, 8), Contains("NCCL_SOCKET_IFNAME=eth"));
  EXPECT_THAT(RankEnvironment(config, 0, 8), Contains("GLOO_SOCKET_IFNAME=eth0"));
}

TEST(RankEnvironment, KeepsNcclFromExcludedInterfacesAndFromTheLoopback) {
  Config config = TwoSlots();
  config.spec.interfaces.exclude = {"docker0"};

  EXPECT_THAT(RankEnvironment(config, 0, 8), Contains("NCCL_SOCKET_IFNAME=^=docker0,lo"));
  EXPECT_THAT(RankEnvironment(config, 0, 8), Not(Contains(HasSubstr("GLOO_SOCKET_IFNAME"))));
}

TEST(RankEnvironment, ARankHasAtLeastOneThread) {
  EXPECT_THAT(RankEnvironment(TwoSlots(), 0, 1), Contains("OMP_NUM_THREADS=1"));
}

TEST(CpusOfQuota, RoundsUpAndKnowsNoLimit) {
  EXPECT_EQ(CpusOfQuota("150000 100000\n"), 2);
  EXPECT_EQ(CpusOfQuota("10000 100000\n"), 1);
  EXPECT_EQ(CpusOfQuota("max 100000\n"), 0);
  EXPECT_EQ(CpusOfQuota(""), 0);
}

ProgramPlace ThirdOfFour() {
  return {.epoch = {1, 2},
          .rank = 2,
          .world_size = 4,
          .slot = 0,
          .slots = 2,
          .node_rank = 1,
          .nodes = 2,
          .master_address = "10.0.0.1"};
}

TEST(ProgramEnvironment, SetsTheProgramsRankAndRendezvous) {
  Config config = TwoSlots();
  config.container["RANK"] = "77";
  const auto environment = ProgramEnvironment(config, ThirdOfFour(), 8, 20123);

  for (const char* entry :
       {"RANK=2", "WORLD_SIZE=4", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=2", "NODE_RANK=1", "NNODES=2",
        "MASTER_ADDR=10.0.0.1", "MASTER_PORT=20123", "JAX_COORDINATOR_ADDRESS=10.0.0.1:20123",
        "JAX_NUM_PROCESSES=4", "JAX_PROCESS_ID=2", "OMP_NUM_THREADS=4",
        "RINGMASTER_HEARTBEAT=/r/heartbeat-0", "NCCL_DEBUG=INFO"}) {
    EXPECT_THAT(environment, Contains(entry));
  }
  EXPECT_THAT(environment, Not(Contains(HasSubstr("PET_"))));
  EXPECT_THAT(environment, Not(Contains(HasSubstr("SHA256"))));
  EXPECT_THAT(environment, Not(Contains(HasSubstr("RINGMASTER_AGENT_SOCKET"))));
}

TEST(ProgramEnvironment, SetsWhatTorchrunsOptionsWould) {
  Config config = TwoSlots();
  config.spec.slots_per_worker = 1;
  config.spec.ranks_per_process = 8;
  ProgramPlace place = ThirdOfFour();
  place.master_address = "fd00::1";

  const auto environment = ProgramEnvironment(config, place, 16, 20123);
  for (const char* entry :
       {"PET_NNODES=2", "PET_NODE_RANK=1", "PET_NPROC_PER_NODE=8", "PET_MASTER_ADDR=fd00::1",
        "PET_MASTER_PORT=20123", "OMP_NUM_THREADS=2", "JAX_COORDINATOR_ADDRESS=[fd00::1]:20123"}) {
    EXPECT_THAT(environment, Contains(entry));
  }

  config.container["PET_NPROC_PER_NODE"] = "gpu";
  EXPECT_THAT(ProgramEnvironment(config, place, 16, 20123), Contains("PET_NPROC_PER_NODE=gpu"));
}

}  // namespace
}  // namespace ringmaster::agent
