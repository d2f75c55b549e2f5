// Kills a rank while it trains over NCCL, and tests that the others continue in a world without it
// and then in a world with a new rank. Uses the same session code as a job.

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include <utility>

#include <gtest/gtest.h>

#include "tests/gpu/gpu_ranks.h"
#include "tests/gpu/piped_membership.h"
#include "tests/unit/trainer/temporary_folder.h"
#include "worker/trainer/elastic_torch/session.h"
#include "worker/trainer/gpu/gpu.h"
#include "worker/trainer/gpu/kernel_head_device.h"
#include "worker/trainer/optim/sgd.h"
#include "worker/trainer/telemetry/audit_log.h"
#include "worker/trainer/workloads/mnist.h"
#include "worker/trainer/workloads/partial_fc.h"

namespace ringmaster::trainer {
namespace {

using std::chrono::steady_clock;

constexpr int64_t kSteps = 300;
constexpr int64_t kBatch = 48;
constexpr std::chrono::seconds kRecoveryLimit{90};

struct Report {
  int64_t step = 0;
  int64_t epoch = 0;
  uint64_t checksum = 0;  // checksum of the state after the last step
};

enum class Trained { kMnist, kPartialFc };

std::unique_ptr<Workload> MakeOn(Trained what, const std::string& device) {
  if (what == Trained::kMnist) {
    return MakeMnist(GeneratedDigits(1, 1024, 64),
                     {.seed = 1, .global_batch = kBatch, .device = device});
  }
  partial_fc::HeadOptions head;
  head.dimension = 64;
  head.sampling = {.seed = 1, .rate = 0.4};
  head.learning_rate = [](int64_t) { return 0.05; };
  PartialFcOptions options;
  options.seed = 1;
  options.global_batch = kBatch;
  options.backbone = "small";
  options.table.head = head;
  options.table.replica_every = 10;
  options.table.checksums = true;
  options.table.device = MakeHeadDevice(device);
  options.device = device;
  return MakePartialFc(SyntheticIdentities({.seed = 1,
                                            .classes = 1000,
                                            .training = 1024,
                                            .held_out = 64,
                                            .shape = {.channels = 1, .side = 16}}),
                       std::move(options));
}

// The main function of a member's process. Returns the exit code.
int TrainMember(Trained what, int orders, int reports) {
  Result<std::unique_ptr<Gpu>> gpu = OpenGpu(0);
  if (!gpu.ok()) return 2;
  AbandonedConnects abandoned_connects;
  PipedMembership membership(orders);
  const SystemClock clock;
  AuditLog audit;
  const auto workload = MakeOn(what, (*gpu)->device());
  workload->WarmUp();
  Buckets buckets(workload->parameters(), {.averages = workload->averages()},
                  [&](std::size_t bytes) { return (*gpu)->ReducedInPlace(bytes); });
  Sgd optimizer(buckets.flat_parameters(), buckets.flat_gradients(),
                {.total_steps = kSteps, .averages = workload->averages()});
  Session session(
      membership, (*gpu)->communicators(abandoned_connects), buckets, optimizer.state(), audit,
      clock,
      {.global_batch = kBatch, .sharded = workload->sharded(), .mirror = optimizer.mirror()});
  Result<void> going = session.Join();
  while (going.ok() && session.applied_steps() < kSteps) {
    const int64_t step = session.applied_steps();
    workload->Load(step, session.share());
    session.Begin();
    // An error here also makes Reduce() fail.
    const Result<double> loss = workload->Forward(session.collectives());
    if (workload->device_loss() != nullptr)
      session.SetLoss(*workload->device_loss());
    else if (loss.ok())
      session.SetLoss(*loss);
    if (loss.ok()) static_cast<void>(workload->Backward(session.collectives()));
    const Outcome<StepResult> reduced = session.Reduce();
    if (reduced.failed()) return 3;
    if (reduced.world_changed()) continue;
    optimizer.Step(step);
    going = session.Applied({});
    Report report{.step = step + 1, .epoch = session.world().epoch.number};
    if (report.step == kSteps) {
      optimizer.mirror()->Pull();
      report.checksum = Checksum(optimizer.state());
    }
    if (::write(reports, &report, sizeof(report)) != sizeof(report)) return 4;
  }
  membership.AwaitEnd();  // another member may still need this process
  ::_exit(going.ok() ? 0 : 5);
}

class Member {
 public:
  Member(Trained what, int number) {
    std::array<int, 2> orders{};
    std::array<int, 2> reports{};
    if (::pipe2(orders.data(), O_CLOEXEC) != 0 || ::pipe2(reports.data(), O_CLOEXEC) != 0) return;
    process_ = StartGpuProcess(number, [&] {
      ::close(orders[1]);
      ::close(reports[0]);
      return TrainMember(what, orders[0], reports[1]);
    });
    ::close(orders[0]);
    ::close(reports[1]);
    orders_ = orders[1];
    reports_ = reports[0];
  }

  void Order(int64_t number, int rank, int size, const std::string& folder) const {
    ::dprintf(orders_, "world %lld %d %d %s\n", static_cast<long long>(number), rank, size,
              folder.c_str());
  }

  // Reads reports up to `step` and an epoch of at least `epoch`, and returns the last report.
  Report Await(int64_t step, int64_t epoch) const {
    Report report;
    const auto deadline = steady_clock::now() + kRecoveryLimit;
    while (report.step < step || report.epoch < epoch) {
      pollfd ready{.fd = reports_, .events = POLLIN, .revents = 0};
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - steady_clock::now());
      if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) != 1) return {};
      if (::read(reports_, &report, sizeof(report)) != sizeof(report)) return {};
    }
    return report;
  }

  void Leave(int64_t number) const {
    ::dprintf(orders_, "leave %lld\n", static_cast<long long>(number));
  }
  void Signal(int signal) const { ::kill(process_, signal); }
  int End() const {
    ::dprintf(orders_, "end\n");
    return AwaitExit(process_, kRecoveryLimit);
  }

 private:
  pid_t process_ = -1;
  int orders_ = -1;
  int reports_ = -1;
};

long long MillisSince(steady_clock::time_point begin) {
  return static_cast<long long>(
      std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - begin).count());
}

enum class Fault { kKilled, kStopped };

class GpuWorlds : public testing::Test {
 protected:
  void Order(int64_t number, const std::vector<const Member*>& members) const {
    const std::string store = folder_.path() + "/world-" + std::to_string(number);
    for (std::size_t rank = 0; rank < members.size(); ++rank) {
      members[rank]->Order(number, static_cast<int>(rank), static_cast<int>(members.size()), store);
    }
  }

  // Expects that the members complete the last step, in world `number`, with the same state.
  static void ExpectTheSameEnd(int64_t number, const std::vector<const Member*>& members) {
    const Report end = members.front()->Await(kSteps, number);
    ASSERT_EQ(end.step, kSteps);
    for (const Member* member : members) {
      if (member != members.front()) {
        EXPECT_EQ(member->Await(kSteps, number).checksum, end.checksum);
      }
    }
    for (const Member* member : members) EXPECT_EQ(member->End(), 0);
  }

 private:
  const TemporaryFolder folder_;
};

struct Case {
  const char* name;
  Trained what;
  Fault fault;
};

class GpuRecovery : public GpuWorlds, public testing::WithParamInterface<Case> {};
INSTANTIATE_TEST_SUITE_P(Of, GpuRecovery,
                         testing::Values(Case{"KilledMnist", Trained::kMnist, Fault::kKilled},
                                         Case{"KilledPartialFc", Trained::kPartialFc,
                                              Fault::kKilled},
                                         Case{"StoppedMnist", Trained::kMnist, Fault::kStopped}),
                         [](const auto& test) { return test.param.name; });

TEST_P(GpuRecovery, TheOthersGoOnWithoutALostRankAndWithANewOne) {
  const Member first(GetParam().what, 0);
  const Member second(GetParam().what, 1);
  const Member third(GetParam().what, 2);
  Order(1, {&first, &second, &third});
  ASSERT_GE(first.Await(20, 1).step, 20);

  const auto lost = steady_clock::now();
  second.Signal(GetParam().fault == Fault::kKilled ? SIGKILL : SIGSTOP);
  Order(2, {&first, &third});
  const Report resumed = first.Await(1, 2);
  ASSERT_GE(resumed.step, 20) << "no committed step is lost";
  std::printf("first step after a rank was lost: %lld ms\n", MillisSince(lost));
  second.Signal(SIGKILL);
  EXPECT_EQ(second.End(), 128 + SIGKILL);

  const auto came = steady_clock::now();
  const Member fourth(GetParam().what, 3);
  Order(3, {&first, &third, &fourth});
  ASSERT_GE(first.Await(1, 3).step, resumed.step);
  std::printf("first step with a new rank, from its start: %lld ms\n", MillisSince(came));

  ExpectTheSameEnd(3, {&first, &third, &fourth});
}

TEST_F(GpuWorlds, FollowEachOtherWhereRanksLeaveAndJoinInOrder) {
  const Member first(Trained::kMnist, 0);
  const Member second(Trained::kMnist, 1);
  const Member third(Trained::kMnist, 2);
  Order(1, {&first, &second, &third});
  ASSERT_GE(first.Await(20, 1).step, 20);

  const auto leaving = steady_clock::now();
  for (const Member* member : {&first, &second, &third}) member->Leave(1);
  Order(2, {&first, &second});
  ASSERT_GE(first.Await(1, 2).step, 20);
  std::printf("first step without a rank that left: %lld ms\n", MillisSince(leaving));
  EXPECT_EQ(third.End(), 5) << "no other world comes";

  const Member fourth(Trained::kMnist, 3);
  const auto joining = steady_clock::now();
  for (const Member* member : {&first, &second}) member->Leave(2);
  Order(3, {&first, &second, &fourth});
  ASSERT_GE(first.Await(1, 3).step, 20);
  std::printf("first step with a rank that joined: %lld ms\n", MillisSince(joining));
  ExpectTheSameEnd(3, {&first, &second, &fourth});
}

}  // namespace
}  // namespace ringmaster::trainer
