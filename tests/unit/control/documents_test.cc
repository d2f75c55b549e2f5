// Tests the JSON of orders, statuses, verdicts and launch specs.

#include <set>

#include <gtest/gtest.h>

#include "common/control/launch_spec.h"
#include "common/control/launcher_api.h"
#include "common/control/master_port.h"
#include "common/control/secrets.h"
#include "common/control/verdict.h"

namespace ringmaster::control {
namespace {

TEST(LaunchSpec, RoundTrips) {
  LaunchSpec spec;
  spec.command = {"ringmaster-train", "--workload=mnist", ""};
  spec.slots_per_worker = 8;
  spec.mpi_extra_args = {"--mca", "x", "1"};
  spec.mpi_pass_env = {"NCCL_DEBUG"};
  spec.interfaces.include = {"eth0", "eth1"};
  spec.ssh_port = 2222;
  spec.in_place = false;
  spec.launch_agent = LaunchAgent::kSsh;

  const auto decoded = DecodeLaunchSpec(EncodeLaunchSpec(spec));

  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(EncodeLaunchSpec(*decoded), EncodeLaunchSpec(spec));
  EXPECT_EQ(decoded->command, spec.command);
  EXPECT_EQ(decoded->interfaces, spec.interfaces);
  EXPECT_EQ(decoded->ssh_port, 2222);
  EXPECT_EQ(decoded->in_place, false);
  EXPECT_EQ(decoded->launch_agent, LaunchAgent::kSsh);
}

TEST(LaunchSpec, ReadsAnUnknownLaunchAgentAsAuto) {
  const auto decoded = DecodeLaunchSpec(R"({"command":["true"],"launchAgent":"Pigeon"})");

  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->launch_agent, LaunchAgent::kAuto);
}

TEST(LaunchSpec, NeedsACommandAndBoundsItsNumbers) {
  EXPECT_TRUE(DecodeLaunchSpec(R"({"command":["true"]})").ok());
  for (const char* bad :
       {R"({"command":[]})", R"({"command":[""]})", R"({})", R"([])", "", R"({"command":"true"})",
        R"({"command":["true"],"slotsPerWorker":0})", R"({"command":["true"],"sshPort":65536})",
        R"({"command":["true"],"allowedSizes":[4,2]})",
        R"({"command":["true"],"allowedSizes":[0]})",
        R"({"command":["true"],"allowedSizes":[2],"inPlace":true})",
        R"({"command":["true"],"ranksPerProcess":-1})",
        R"({"command":["true"],"ranksPerProcess":8,"slotsPerWorker":8})",
        R"({"command":["true"],"ranksPerProcess":8,"inPlace":true})",
        R"({"command":["true"],"sshPort":-1})", R"({"command":["a\u0000b"]})"}) {
    EXPECT_FALSE(DecodeLaunchSpec(bad).ok()) << bad;
  }
}

TEST(LaunchSpec, OneProcessPerWorkerStartsItsRanksByItself) {
  LaunchSpec spec;
  spec.command = {"torchrun", "train.py"};
  EXPECT_FALSE(spec.PerWorker());
  spec.ranks_per_process = 8;

  const auto decoded = DecodeLaunchSpec(EncodeLaunchSpec(spec));

  ASSERT_TRUE(decoded.ok());
  EXPECT_TRUE(decoded->PerWorker());
  EXPECT_EQ(decoded->ranks_per_process, 8);
}

TEST(MasterPort, DiffersByWorldAndJobAndIsTheSameForAllWorkers) {
  EXPECT_EQ(MasterPortOf("uid", {1, 2}), MasterPortOf("uid", {1, 2}));
  std::set<int> ports;
  for (const char* uid : {"one", "two"}) {
    for (int64_t number = 1; number <= 50; ++number) ports.insert(MasterPortOf(uid, {3, number}));
  }
  EXPECT_GE(ports.size(), 98U);
  EXPECT_GE(*ports.begin(), 20000);
  EXPECT_LT(*ports.rbegin(), 30000);
}

TEST(LaunchSpec, RefusesInvalidInterfaceNames) {
  for (const char* fine : {"eth0", "enp3s0f1np1", "bond0.100", "br-1a_b", "lo"}) {
    EXPECT_TRUE(IsInterfaceName(fine)) << fine;
  }
  for (const char* bad : {"", "-x", "--mca", "^eth0", "=eth0", "eth0,eth1", "eth0 eth1",
                          "10.0.0.0/8", "0eth", "eth0\n", "eth0@if5", "abcdefghijklmnop"}) {
    EXPECT_FALSE(IsInterfaceName(bad)) << bad;
    for (const bool included : {true, false}) {
      LaunchSpec spec;
      spec.command = {"true"};
      (included ? spec.interfaces.include : spec.interfaces.exclude) = {"eth0", bad};
      EXPECT_FALSE(DecodeLaunchSpec(EncodeLaunchSpec(spec)).ok()) << bad;
    }
  }
  LaunchSpec both;
  both.command = {"true"};
  both.interfaces = {.include = {"eth0"}, .exclude = {"eth1"}};
  EXPECT_FALSE(DecodeLaunchSpec(EncodeLaunchSpec(both)).ok());
}

TEST(LaunchSpec, InPlaceDefaultsToWhatTheProgramsNameImplies) {
  const auto managed = [](std::vector<std::string> command) {
    LaunchSpec spec;
    spec.command = std::move(command);
    return spec.InPlace();
  };
  EXPECT_TRUE(managed({"ringmaster-train"}));
  EXPECT_TRUE(managed({"/usr/bin/ringmaster-train", "--x"}));
  EXPECT_TRUE(managed({"ringmaster-bench", "allreduce"}));
  EXPECT_FALSE(managed({"ringmaster-bench", "allreduce", "--backend=mpi"}));
  EXPECT_FALSE(managed({"python", "ringmaster-train"}));
  EXPECT_FALSE(managed({"not-ringmaster-train"}));
  EXPECT_FALSE(managed({}));
}

TEST(LaunchSpec, InPlaceTakesPrecedenceOverTheProgramsName) {
  EXPECT_TRUE(DecodeLaunchSpec(R"({"command":["autoencoder"],"inPlace":true})")->InPlace());
  EXPECT_FALSE(DecodeLaunchSpec(R"({"command":["ringmaster-train"],"inPlace":false})")->InPlace());
}

TEST(Order, RoundTrips) {
  Order order;
  order.stamp = {4, 9};
  order.workers = {{"uid-0", "digits-worker-0", "", 0}, {"uid-1", "digits-worker-1", "node1", 1}};
  order.replicas = 3;
  order.min_replicas = 2;
  order.dead = {"uid-7"};
  order.checkpoint = true;

  const auto decoded = DecodeOrder(EncodeOrder(order));

  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(EncodeOrder(*decoded), EncodeOrder(order));
  EXPECT_EQ(decoded->stamp, order.stamp);
  EXPECT_EQ(decoded->workers[1].node, "node1");
  EXPECT_EQ(decoded->dead, order.dead);
  EXPECT_TRUE(decoded->checkpoint);
}

TEST(Order, IsRefusedIfItsReplicasAreInvalid) {
  Order order;
  order.replicas = 1;
  order.min_replicas = 2;
  EXPECT_FALSE(DecodeOrder(EncodeOrder(order)).ok());
  order = {};
  order.replicas = -1;
  EXPECT_FALSE(DecodeOrder(EncodeOrder(order)).ok());
}

TEST(OrderStamp, ComparesTheLeaderFirst) {
  EXPECT_LT((OrderStamp{1, 9}), (OrderStamp{2, 1}));
  EXPECT_LT((OrderStamp{2, 1}), (OrderStamp{2, 2}));
}

TEST(LauncherStatus, RoundTrips) {
  LauncherStatus status;
  status.term = 2;
  status.epoch = {2, 7};
  status.phase = LauncherPhase::kRunning;
  status.last_order = {1, 3};
  status.world_size = 4;
  status.workers = {{"uid-0", true, true, false, false, {}},
                    {"uid-1", false, false, true, true, {{"sshd", "missing"}}}};
  status.progress = Progress{10, 100, 5.5, 0.25, -1};
  status.last_recovery =
      Recovery{{2, 7}, "RankKilled", "digits-worker-1", "node1", 12, 340, 0, true, 9000};
  status.pause_reason = kPauseNoQuorum;
  status.failures = {RankExit{1, "uid-1", "digits-worker-1", "node1", 0, "n-1", -1, 9, {"last"}}};
  status.failures[0].out_of_memory = OutOfMemory{67108864, 67100000};
  status.crashes = 3;
  status.training_ended = true;
  status.message = "waits";

  const auto decoded = DecodeLauncherStatus(EncodeLauncherStatus(status));

  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(EncodeLauncherStatus(*decoded), EncodeLauncherStatus(status));
  EXPECT_EQ(decoded->phase, LauncherPhase::kRunning);
  EXPECT_TRUE(decoded->workers[1].drained);
  EXPECT_TRUE(decoded->workers[1].fenced);
  ASSERT_TRUE(decoded->last_recovery.has_value());
  EXPECT_EQ(decoded->last_recovery->resumed_millis, 340);
  EXPECT_TRUE(decoded->last_recovery->from_start);
  EXPECT_EQ(decoded->last_recovery->ran_millis, 9000);
  EXPECT_EQ(decoded->failures.at(0).signal, 9);
  EXPECT_TRUE(decoded->training_ended);
  status.progress.reset();
  EXPECT_FALSE(DecodeLauncherStatus(EncodeLauncherStatus(status))->progress);
}

Verdict LongVerdict() {
  Verdict verdict;
  verdict.reason = kReasonRankFailed;
  verdict.message = std::string(3000, 'm');
  verdict.first_failure = RankExit{1, "uid", "pod", "node", 0, "n-1", 3, 0, {}};
  for (int i = 0; i < 10; ++i) {
    verdict.first_failure->last_lines.push_back(std::to_string(i) + std::string(299, 'x'));
  }
  return verdict;
}

TEST(Verdict, RoundTrips) {
  Verdict verdict;
  verdict.succeeded = true;
  verdict.message = "done";
  verdict.epoch = {1, 2};
  verdict.world_size = 3;
  verdict.progress = Progress{5, 5, 1, 0.5, 0.98};
  verdict.clean_exits = 3;

  const auto decoded = DecodeVerdict(EncodeVerdict(verdict));

  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(EncodeVerdict(*decoded), EncodeVerdict(verdict));
  EXPECT_FALSE(decoded->first_failure);
}

TEST(Verdict, KeepsTheNewestLinesWhenItMustShrink) {
  const auto decoded = DecodeVerdict(EncodeVerdict(LongVerdict()));

  ASSERT_TRUE(decoded.ok());
  ASSERT_FALSE(decoded->first_failure->last_lines.empty());
  EXPECT_EQ(decoded->first_failure->last_lines.back()[0], '9');
  EXPECT_EQ(decoded->message.size(), 3000U);
}

TEST(Verdict, AlwaysFitsTheTerminationMessage) {
  Verdict huge = LongVerdict();
  huge.message = std::string(100'000, '\x01');  // each byte becomes six bytes in JSON
  for (std::string& line : huge.first_failure->last_lines) line = std::string(5000, '"');
  huge.first_failure->pod = std::string(10'000, 'p');
  huge.first_failure->node = std::string(10'000, '\xff');
  huge.reason = std::string(10'000, 'r');
  Verdict wide = LongVerdict();
  for (std::string& line : wide.first_failure->last_lines) {
    line.clear();
    for (int i = 0; i < 200; ++i) line += "é€";
  }
  for (const Verdict& verdict : {huge, wide, LongVerdict(), Verdict{}}) {
    const std::string text = EncodeVerdict(verdict);
    EXPECT_LE(text.size(), kMaxVerdictBytes);
    EXPECT_TRUE(DecodeVerdict(text).ok());
  }
}

TEST(Secrets, AreEqualOnlyIfTheSameAndNotEmpty) {
  EXPECT_TRUE(SecretsEqual("token", "token"));
  EXPECT_FALSE(SecretsEqual("token", "tokem"));
  EXPECT_FALSE(SecretsEqual("token", "token2"));
  EXPECT_FALSE(SecretsEqual("", ""));
  EXPECT_FALSE(SecretsEqual("", "token"));
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace ringmaster::control
