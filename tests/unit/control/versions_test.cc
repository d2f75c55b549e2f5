// Tests the rules of compatibility (common/control/README.md, "Versions"): a newer peer may add
// fields, values and message types; an older peer may omit fields that have a default.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/launch_spec.h"
#include "common/control/launcher_api.h"
#include "common/control/messages.h"
#include "common/control/verdict.h"
#include "tests/fakes/other_version.h"
#include "tests/unit/control/one_of_each.h"

namespace ringmaster::control {
namespace {

LauncherStatus FullStatus() {
  LauncherStatus status;
  status.term = 2;
  status.epoch = kEpoch;
  status.phase = LauncherPhase::kRunning;
  status.last_order = {1, 3};
  status.ordered = 1;
  status.world_size = 4;
  status.workers = {{"uid-0", true, true, false, false, {{"sshd", "missing"}}}};
  status.progress = Progress{10, 100, 5.5, 0.25, -1};
  status.last_recovery =
      Recovery{kEpoch, "RankKilled", "digits-worker-1", "node1", 12, 340, 0, true, 9000};
  status.checkpoint = CheckpointReport{kEpoch, 7, 100};
  status.unprotected = {{"checkpoint", "digits-worker-1", "no space left"}};
  status.failures = {kExit};
  status.message = "waits";
  status.stragglers = {Straggler{"uid-0", "digits-worker-0", "node0", 0, 2, 1, 60}};
  return status;
}

Order FullOrder() {
  Order order;
  order.stamp = {4, 9};
  order.workers = {{"uid-0", "digits-worker-0", "node0", 0}};
  order.dead = {"uid-7"};
  order.checkpoint = true;
  return order;
}

Verdict FullVerdict() {
  Verdict verdict;
  verdict.reason = kReasonRankFailed;
  verdict.message = "rank 5 failed";
  verdict.epoch = kEpoch;
  verdict.world_size = 16;
  verdict.progress = Progress{5, 5, 1, 0.5, 0.98};
  verdict.first_failure = kExit;
  verdict.clean_exits = 3;
  return verdict;
}

TEST(Versions, UnknownFieldsOfAMessageAreIgnored) {
  for (const Message& message : OneOfEach()) {
    const std::string line = Encode(message);

    const auto decoded = Decode(AsNewer(line));

    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    EXPECT_EQ(Encode(*decoded), line);
  }
}

TEST(Versions, UnknownFieldsOfADocumentAreIgnored) {
  const std::string order = EncodeOrder(FullOrder());
  const std::string status = EncodeLauncherStatus(FullStatus());
  const std::string verdict = EncodeVerdict(FullVerdict());

  EXPECT_EQ(EncodeOrder(*DecodeOrder(AsNewer(order))), order);
  EXPECT_EQ(EncodeLauncherStatus(*DecodeLauncherStatus(AsNewer(status))), status);
  EXPECT_EQ(EncodeVerdict(*DecodeVerdict(AsNewer(verdict))), verdict);
  const std::string spec = R"({"command":["ringmaster-train"],"slotsPerWorker":2})";
  EXPECT_EQ(DecodeLaunchSpec(AsNewer(spec))->slots_per_worker, 2);
}

// Fields that older versions may omit get their defaults.
TEST(Versions, FieldsThatAnOlderPeerOmitsHaveDefaults) {
  const auto heard = [](const Message& message) { return *Decode(LineAsOlder(Encode(message))); };

  EXPECT_EQ(std::get<Welcome>(heard(Welcome{2, 250, 9})).heartbeat_millis, 100);
  EXPECT_EQ(std::get<Welcome>(heard(Welcome{2, 250, 9})).protocol, kFirstProtocol);
  EXPECT_EQ(std::get<RankHello>(heard(RankHello{1, 4711, 9})).protocol, kFirstProtocol);
  EXPECT_EQ(std::get<AttachHello>(heard(AttachHello{7, 1, 5, 16, true, 9})).protocol,
            kFirstProtocol);
  EXPECT_FALSE(std::get<AttachHello>(heard(AttachHello{7, 1, 5, 16, true, 9})).direct);
  EXPECT_EQ(std::get<RankBroken>(heard(RankBroken{kEpoch, 5, 3, "reset"})).peer, -1);
  EXPECT_EQ(std::get<StopEpoch>(heard(StopEpoch{kEpoch, 7})).grace_millis, 1000);
  const auto exited = std::get<RankExited>(heard(RankExited{kEpoch, kExit}));
  EXPECT_EQ(exited.exit.exit_code, kExit.exit_code);
  EXPECT_TRUE(exited.exit.last_lines.empty());
  const auto progress =
      std::get<RankProgress>(heard(RankProgress{kEpoch, {100, 500, 1, 0.5, 0.9}}));
  EXPECT_EQ(progress.progress.step, 100);
  EXPECT_EQ(progress.progress.total_steps, 0);
  EXPECT_EQ(progress.progress.accuracy, -1);
  const auto positions = std::get<RankPositions>(heard(RankPositions{kEpoch, {kPosition}}));
  EXPECT_EQ(positions.ranks.at(0).step, kPosition.step);
  EXPECT_EQ(positions.ranks.at(0).peer, -1);
  EXPECT_EQ(positions.ranks.at(0).applied_millis, -1);
  EXPECT_EQ(positions.ranks.at(0).collectives, CollectiveCounts{});
}

TEST(Versions, AnOlderLaunchersStatusIsUnderstood) {
  const auto understood = [](const std::string& text) { return DecodeLauncherStatus(text).ok(); };

  const auto status =
      *DecodeLauncherStatus(AsOlder(EncodeLauncherStatus(FullStatus()), understood));

  EXPECT_EQ(status.version, kFirstApiVersion);
  EXPECT_EQ(status.epoch, kEpoch);
  EXPECT_EQ(status.phase, LauncherPhase::kRunning);
  EXPECT_EQ(status.world_size, 4);
  EXPECT_TRUE(status.workers.at(0).member);
  EXPECT_FALSE(status.progress || status.last_recovery || status.checkpoint);
  EXPECT_TRUE(status.failures.empty() && status.stragglers.empty() && status.unprotected.empty());
}

TEST(Versions, AnOlderOperatorsOrderIsUnderstood) {
  const auto understood = [](const std::string& text) { return DecodeOrder(text).ok(); };

  const auto order = *DecodeOrder(AsOlder(EncodeOrder(FullOrder()), understood));

  EXPECT_EQ(order.stamp, (OrderStamp{4, 9}));
  EXPECT_EQ(order.workers.at(0).pod_uid, "uid-0");
  EXPECT_TRUE(order.dead.empty());
  EXPECT_FALSE(order.checkpoint);
}

TEST(Versions, AnOlderLaunchersVerdictIsUnderstood) {
  const auto understood = [](const std::string& text) { return DecodeVerdict(text).ok(); };

  EXPECT_FALSE(DecodeVerdict(AsOlder(EncodeVerdict(FullVerdict()), understood))->succeeded);
}

TEST(Versions, UnknownEnumValuesHaveADefinedMeaning) {
  std::string line = Encode(RankPositions{kEpoch, {kPosition}});
  line.replace(line.find("reduce"), 6, "dreams");
  std::string status = EncodeLauncherStatus(FullStatus());
  status.replace(status.find("Running"), 7, "Musing");

  EXPECT_EQ(std::get<RankPositions>(*Decode(line)).ranks.at(0).phase, RankPhase::kEvaluate);
  EXPECT_EQ(DecodeLauncherStatus(status)->phase, LauncherPhase::kForming);
}

TEST(Versions, UnknownMessageTypesAreDistinguishedFromInvalidLines) {
  EXPECT_EQ(Decode(UnknownLine()).error().reason, kReasonUnknownType);
  EXPECT_EQ(Decode(R"({"type":7})").error().reason, "");
  EXPECT_EQ(Decode(R"({"type":"Release"})").error().reason, "");
}

}  // namespace
}  // namespace ringmaster::control
