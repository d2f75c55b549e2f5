#include "operator/runtime/leader_elector.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_http_client.h"

namespace ringmaster::runtime {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A fake API server with one Lease. Supports resource versions and conditional updates, and can be
// unreachable.
class FakeLease {
 public:
  Result<http::Response> Answer(const http::Request& request) {
    if (!reachable) return Error{ErrorKind::kUnavailable, "no route"};
    if (request.method == http::Method::kGet)
      return lease.is_null() ? Refuse(404, "NotFound") : Ok(200);
    json wanted = json::parse(request.body);
    if (request.method == http::Method::kPost) {
      if (!lease.is_null()) return Refuse(409, "AlreadyExists");
      return Store(std::move(wanted), 201);
    }
    if (lease.is_null()) return Refuse(404, "NotFound");
    if (wanted["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"])
      return Refuse(409, "Conflict");
    return Store(std::move(wanted), 200);
  }

  std::string Holder() const { return lease["spec"]["holderIdentity"].get<std::string>(); }

  json lease;
  bool reachable = true;

 private:
  Result<http::Response> Store(json wanted, int status) {
    wanted["metadata"]["resourceVersion"] = std::to_string(++version_);
    lease = std::move(wanted);
    return Ok(status);
  }
  Result<http::Response> Ok(int status) const { return http::Response{status, {}, lease.dump()}; }
  static Result<http::Response> Refuse(int status, const std::string& reason) {
    return http::Response{status, {}, json{{"kind", "Status"}, {"reason", reason}}.dump()};
  }

  int version_ = 10;
};

// One operator process.
struct Candidate {
  Candidate(FakeLease& lease, const Clock& clock, const std::string& identity)
      : elector(client, clock, {.ns = "sys", .identity = identity},
                {.on_elected = [this](int64_t) { ++elected; },
                 .on_lost = [this](const std::string&) { ++lost; }}) {
    http.on_send = [&lease](const http::Request& request) { return lease.Answer(request); };
  }

  http::FakeHttpClient http;
  kube::KubeClient client{http, nullptr};
  int elected = 0;
  int lost = 0;
  LeaderElector elector;
};

class LeaderElectorTest : public testing::Test {
 protected:
  FakeClock clock_;
  FakeLease lease_;
  Candidate a_{lease_, clock_, "a"};
  Candidate b_{lease_, clock_, "b"};
};

TEST_F(LeaderElectorTest, FirstComesFirst) {
  a_.elector.Step();
  b_.elector.Step();

  EXPECT_TRUE(a_.elector.IsLeader());
  EXPECT_FALSE(b_.elector.IsLeader());
  EXPECT_EQ(a_.elected, 1);
  EXPECT_EQ(lease_.lease["spec"]["leaseDurationSeconds"], 4);
  EXPECT_EQ(lease_.lease["spec"]["leaseTransitions"], 0) << "nobody led before";
}

TEST_F(LeaderElectorTest, ALeaseMadeAnewGoesOnAboveTheDeletedOne) {
  a_.elector.Step();
  b_.elector.Step();
  clock_.Advance(seconds(4));
  b_.elector.Step();
  const int64_t before = b_.elector.term();
  const FakeClock behind;  // this clock lags, because the others have advanced
  Candidate c(lease_, behind, "c");

  lease_.lease = nullptr;
  c.elector.Step();

  EXPECT_EQ(c.elected, 1);
  EXPECT_GT(c.elector.term(), before) << "launchers refuse lower stamps";
  EXPECT_EQ(lease_.lease["spec"]["leaseTransitions"], 0);
}

TEST_F(LeaderElectorTest, DoesNotLeadWhereTermsHaveNoOrder) {
  a_.http.on_send = [&](const http::Request& request) {
    Result<http::Response> answer = lease_.Answer(request);
    if (!answer->Success()) return answer;
    json lease = json::parse(answer->body);
    lease["metadata"]["resourceVersion"] = "v12";
    answer->body = lease.dump();
    return answer;
  };

  a_.elector.Step();

  EXPECT_FALSE(a_.elector.IsLeader());
  EXPECT_EQ(a_.elected, 0);
}

TEST_F(LeaderElectorTest, KeepsTheLeaseWhileItRenews) {
  a_.elector.Step();
  const json acquired = lease_.lease["spec"]["acquireTime"];
  const int64_t first = a_.elector.term();

  for (int i = 0; i < 30; ++i) {
    clock_.Advance(seconds(1));
    const milliseconds delay = a_.elector.Step();
    EXPECT_GE(delay, milliseconds(1000));
    EXPECT_LE(delay, milliseconds(1200));
    b_.elector.Step();
  }

  EXPECT_TRUE(a_.elector.IsLeader());
  EXPECT_EQ(b_.elected, 0);
  EXPECT_EQ(a_.elector.term(), first);
  EXPECT_EQ(lease_.lease["spec"]["leaseTransitions"], 0);
  EXPECT_EQ(lease_.lease["spec"]["acquireTime"], acquired);
}

TEST_F(LeaderElectorTest, TakesOverWhenNothingChangedForTheLeaseDuration) {
  a_.elector.Step();
  b_.elector.Step();  // b reads the Lease record now

  clock_.Advance(milliseconds(3999));
  b_.elector.Step();
  EXPECT_EQ(b_.elected, 0);
  clock_.Advance(milliseconds(1));
  b_.elector.Step();

  EXPECT_EQ(b_.elected, 1);
  EXPECT_GT(b_.elector.term(), a_.elector.term())
      << "orders of the new leader carry a higher stamp";
  EXPECT_EQ(lease_.lease["spec"]["leaseTransitions"], 1);
}

TEST_F(LeaderElectorTest, JudgesExpiryByItsOwnObservationNotByTheTimesWritten) {
  a_.elector.Step();
  lease_.lease["spec"]["renewTime"] = "2001-01-01T00:00:00.000000Z";
  clock_.Advance(seconds(60));

  b_.elector.Step();  // b reads the record for the first time

  EXPECT_EQ(b_.elected, 0);
}

TEST_F(LeaderElectorTest, LosesWhenItCannotRenewInTime) {
  a_.elector.Step();
  lease_.reachable = false;

  clock_.Advance(milliseconds(2900));
  const milliseconds delay = a_.elector.Step();
  EXPECT_EQ(a_.lost, 0);
  EXPECT_LE(delay, milliseconds(100)) << "the deadline must not be overslept";
  clock_.Advance(milliseconds(100));
  a_.elector.Step();

  EXPECT_EQ(a_.lost, 1);
  EXPECT_FALSE(a_.elector.IsLeader());
}

TEST_F(LeaderElectorTest, GivesNoTryMoreTimeThanTheLeaseHas) {
  a_.elector.Step();
  a_.elector.Step();
  const milliseconds normal = a_.http.Sent().back().deadline;
  lease_.reachable = false;

  clock_.Advance(milliseconds(2900));
  a_.elector.Step();

  EXPECT_EQ(normal, milliseconds(1500));
  EXPECT_EQ(a_.http.Sent().back().deadline, milliseconds(500));
}

TEST_F(LeaderElectorTest, StandbyWakesWhenTheLeaseRunsOut) {
  a_.elector.Step();
  b_.elector.Step();

  clock_.Advance(milliseconds(3700));
  const milliseconds delay = b_.elector.Step();
  clock_.Advance(delay);
  b_.elector.Step();

  EXPECT_LE(delay, milliseconds(301));
  EXPECT_EQ(b_.elected, 1);
}

TEST_F(LeaderElectorTest, LosesWhenAnotherHoldsTheLease) {
  a_.elector.Step();
  b_.elector.Step();
  clock_.Advance(seconds(4));
  b_.elector.Step();

  a_.elector.Step();

  EXPECT_EQ(b_.elected, 1);
  EXPECT_EQ(a_.lost, 1);
}

TEST_F(LeaderElectorTest, OneOfTwoRacersWins) {
  a_.elector.Step();
  Candidate c(lease_, clock_, "c");
  b_.elector.Step();
  c.elector.Step();
  clock_.Advance(seconds(4));
  // b acquires the Lease between c's read and c's update.
  c.http.on_send = [&](const http::Request& request) {
    if (request.method == http::Method::kPut) b_.elector.Step();
    return lease_.Answer(request);
  };

  c.elector.Step();

  EXPECT_EQ(b_.elected, 1);
  EXPECT_EQ(c.elected, 0);
  EXPECT_EQ(c.lost, 0);
}

TEST_F(LeaderElectorTest, ReleaseLetsAStandbyTakeOverAtOnce) {
  a_.elector.Step();
  b_.elector.Step();

  a_.elector.StopAndRelease();
  EXPECT_EQ(lease_.Holder(), "");
  b_.elector.Step();

  EXPECT_EQ(b_.elected, 1);
  EXPECT_GT(b_.elector.term(), a_.elector.term());
  EXPECT_EQ(lease_.lease["spec"]["leaseTransitions"], 1);
  EXPECT_EQ(a_.lost, 0);
}

TEST_F(LeaderElectorTest, ConflictByAForeignFieldIsNoLoss) {
  a_.elector.Step();
  // A user annotates the Lease, which changes its version but not its holder.
  lease_.lease["metadata"]["resourceVersion"] = "99";
  clock_.Advance(seconds(1));

  a_.elector.Step();

  EXPECT_TRUE(a_.elector.IsLeader());
  EXPECT_EQ(a_.lost, 0);
}

TEST_F(LeaderElectorTest, StandbyOutlivesAnUnreachableServer) {
  lease_.reachable = false;
  for (int i = 0; i < 5; ++i) {
    a_.elector.Step();
    clock_.Advance(seconds(1));
  }
  lease_.reachable = true;

  a_.elector.Step();

  EXPECT_EQ(a_.elected, 1);
  EXPECT_EQ(a_.lost, 0);
}

TEST(LeaderElectorOptions, MustFitEachOther) {
  EXPECT_TRUE(Validate({}).ok());
  EXPECT_FALSE(Validate({.lease_duration = seconds(3)}).ok());
  EXPECT_FALSE(Validate({.renew_deadline = seconds(1)}).ok());
  EXPECT_FALSE(Validate({.retry_period = seconds(0)}).ok());
}

}  // namespace
}  // namespace ringmaster::runtime
