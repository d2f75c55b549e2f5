#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include "common/control/pod_contract.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/kube/json_access.h"
#include "tests/unit/job/controller/reconciler_scene.h"

namespace ringmaster::job {
namespace {

TEST(Reconciler, ReadsNoSecretButItsKeyring) {
  FakeApi api;
  Operator op(api);

  op.Settle();

  ASSERT_FALSE(api.secret_reads.empty());
  for (const std::string& path : api.secret_reads) {
    EXPECT_EQ(path, "/api/v1/namespaces/ringmaster-system/secrets/ringmaster-keyring");
  }
}

TEST(Reconciler, ARotatedSeedIsForNewJobsAndRunningOnesKeepTheirs) {
  FakeApi api;
  Operator op(api);
  op.Settle();
  const std::string service = "/digits-launcher";
  const auto seed_of = [&](const std::string& name) {
    return kube::GetString(api.objects[std::string(kServicesPath) + "/" + name + "-launcher"],
                           {"metadata", "annotations", api::kAnnotationSeedId});
  };
  const std::string old = seed_of("digits");
  api.objects[kKeyringPath]["data"]["rotated"] = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
  api.objects[kKeyringPath]["data"]["current"] = "cm90YXRlZA==";
  op.clock.Advance(std::chrono::seconds(61));
  const auto add = [&](const char* name) {
    json job = api.objects[kJobPath];
    job.erase("status");
    job["metadata"]["name"] = name;
    job["metadata"]["uid"] = std::string("uid-of-") + name;
    api.objects[std::string("/apis/ringmaster.dev/v1alpha1/namespaces/team-a/trainingjobs/") +
                name] = job;
    op.Sync();
    (void)op.reconciler.Reconcile(std::string("team-a/") + name);
  };

  add("second");

  EXPECT_EQ(seed_of("second"), "rotated");
  // A replaced worker of the first job gets the same keys as the job's other workers.
  const std::string worker = std::string(kPodsPath) + "/digits-worker-1";
  const auto hashes = [&] {
    for (const json& variable : api.objects[worker]["spec"]["containers"][0]["env"]) {
      if (variable["name"] == control::kEnvItemHashes) return variable["value"].get<std::string>();
    }
    return std::string();
  };
  const std::string before = hashes();
  ASSERT_FALSE(before.empty());
  api.objects.erase(worker);
  op.Settle();
  EXPECT_EQ(hashes(), before);
  EXPECT_EQ(seed_of("digits"), old);

  // If the keyring becomes unreadable, jobs continue.
  api.objects[kKeyringPath]["data"]["current"] = "bm9uZQ==";
  op.clock.Advance(std::chrono::seconds(61));
  add("third");
  EXPECT_EQ(seed_of("third"), "rotated");
}

TEST(Reconciler, ALostKeyringIsReportedAndNothingIsCreated) {
  FakeApi api;
  Operator(api).Settle();
  api.objects.erase("/api/v1/namespaces/ringmaster-system/secrets/ringmaster-keyring");
  api.objects.erase(std::string(kPodsPath) + "/digits-worker-0");

  Operator(api).Settle();

  const auto status = StatusOf(api);
  EXPECT_EQ(api::FindCondition(status.conditions, api::kWorkersReady)->reason,
            api::kReasonCredentialsUnavailable);
  EXPECT_EQ(api.Count(kPodsPath), 3u);
}

TEST(Reconciler, ADeletedServiceComesBackWithTheKeysOfTheRunningPods) {
  FakeApi api;
  Operator(api).Settle();
  const std::string service = std::string(kServicesPath) + "/digits-launcher";
  const auto seed = [&] {
    return kube::GetString(api.objects[service],
                           {"metadata", "annotations", api::kAnnotationSeedId});
  };
  const std::string first = seed();
  json& keyring = api.objects.at("/api/v1/namespaces/ringmaster-system/secrets/ringmaster-keyring");
  keyring["data"]["s2"] = keyring["data"][first];
  keyring["data"]["current"] = "czI=";  // "s2"
  api.objects.erase(service);

  Operator(api).Settle();

  EXPECT_FALSE(first.empty());
  EXPECT_EQ(seed(), first);
}

}  // namespace
}  // namespace ringmaster::job
