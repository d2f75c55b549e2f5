#include "operator/job/policy/ownership.h"

#include <gtest/gtest.h>

#include "tests/builders/job_builder.h"

namespace ringmaster::job {
namespace {

using ringmaster::testing::JobBuilder;

TEST(Ownership, AJobIsWhoseNameItsServiceBearsThenWhoseItsStatusDoes) {
  const struct {
    const char* on_service;  // nullptr: the Service does not exist
    const char* in_status;
    bool ours;
  } table[] = {
      {nullptr, "", true},
      {nullptr, "us/lease", true},
      {nullptr, "them/lease", false},
      {"", "", true},
      {"", "them/lease", false},
      {"us/lease", "", true},
      {"them/lease", "", false},
      {"us/lease", "them/lease", true},
      {"them/lease", "us/lease", false},
  };
  for (const auto& row : table) {
    api::TrainingJob job = JobBuilder().Build();
    job.status.installation = row.in_status;
    ServiceView service;
    if (row.on_service != nullptr) service.installation = row.on_service;

    const bool ours =
        IsOurs(job, row.on_service == nullptr ? nullptr : &service, {.installation = "us/lease"});

    EXPECT_EQ(ours, row.ours) << (row.on_service ? row.on_service : "-") << " " << row.in_status;
  }
}

TEST(Ownership, AJobWithoutANameOnServiceOrStatusIsUnclaimed) {
  api::TrainingJob job = JobBuilder().Build();
  ServiceView unnamed;
  ServiceView named;
  named.installation = "them/lease";

  EXPECT_TRUE(IsUnclaimed(job, nullptr, "us/lease"));
  EXPECT_TRUE(IsUnclaimed(job, &unnamed, "us/lease"));
  EXPECT_FALSE(IsUnclaimed(job, &named, "us/lease"));
  EXPECT_FALSE(IsUnclaimed(job, nullptr, "")) << "there is but one";
  job.status.installation = "us/lease";
  EXPECT_FALSE(IsUnclaimed(job, nullptr, "us/lease"));
}

TEST(Ownership, WhomAPersonNamesOnTheJobHasItWhateverServiceAndStatusSay) {
  api::TrainingJob job = JobBuilder().Build();
  job.installation = "us/lease";
  job.status.installation = "them/lease";
  ServiceView service;
  service.installation = "them/lease";

  EXPECT_TRUE(IsOurs(job, &service, {.installation = "us/lease"}));
  EXPECT_FALSE(IsOurs(job, &service, {.installation = "them/lease"}));
  EXPECT_FALSE(IsUnclaimed(job, nullptr, "us/lease"));
  EXPECT_TRUE(IsHandedOver(job, "us/lease"));
  EXPECT_FALSE(IsHandedOver(job, "them/lease"));
  job.installation = "";
  EXPECT_FALSE(IsHandedOver(job, "")) << "there is but one";
}

// The new installation may have had its leader for longer than the previous one.
TEST(Ownership, TheClaimOfAHandedOverJobsServiceGivesATerm) {
  const struct {
    const char* annotation;
    const char* on_service;  // nullptr: the Service does not exist
    bool must_claim;
    int64_t term;
  } table[] = {
      {"us/lease", "them/lease", true, 0}, {"us/lease", "", true, 0},
      {"us/lease", "us/lease", false, 70}, {"us/lease", nullptr, false, 0},
      {"", "us/lease", false, 0},          {"them/lease", "us/lease", false, 0},
  };
  for (const auto& row : table) {
    api::TrainingJob job = JobBuilder().Build();
    job.installation = row.annotation;
    ServiceView service{.resource_version = "70"};
    if (row.on_service != nullptr) service.installation = row.on_service;
    const ServiceView* const seen = row.on_service == nullptr ? nullptr : &service;
    const std::string name = std::string(row.annotation) + " " + service.installation;

    EXPECT_EQ(MustClaimService(job, seen, "us/lease"), row.must_claim) << name;
    EXPECT_EQ(TermOfClaim(job, seen, "us/lease"), row.term) << name;
  }
}

TEST(Ownership, AServiceWithoutAResourceVersionGivesNoTerm) {
  api::TrainingJob job = JobBuilder().Build();
  job.installation = "us/lease";
  ServiceView service{.resource_version = "not-a-number"};
  service.installation = "us/lease";

  EXPECT_EQ(TermOfClaim(job, &service, "us/lease"), 0);
}

TEST(Ownership, OnlyOwnJobsAreLeftBehindInNamespacesThatAreExcludedLater) {
  api::TrainingJob job = JobBuilder().Build();
  const Scope excluded{.installation = "us/lease", .excluded_namespaces = {job.ns}};
  const Scope included{.installation = "us/lease", .excluded_namespaces = {}};
  job.status.installation = "us/lease";
  EXPECT_TRUE(IsLeftBehind(job, nullptr, excluded));
  EXPECT_FALSE(IsLeftBehind(job, nullptr, included));
  ServiceView service;
  service.installation = "them/lease";
  EXPECT_FALSE(IsLeftBehind(job, &service, excluded)) << "another installation has it now";
  job.status.installation = "them/lease";
  EXPECT_FALSE(IsLeftBehind(job, nullptr, excluded));
  job.status.installation = "";
  EXPECT_FALSE(IsLeftBehind(job, nullptr, excluded)) << "no installation manages it yet";
}

TEST(Ownership, ExcludedNamespacesAndOtherManagersAreLeftAlone) {
  api::TrainingJob job = JobBuilder().Build();
  EXPECT_TRUE(IsOurs(job, nullptr, {.excluded_namespaces = {"other"}}));
  EXPECT_FALSE(IsOurs(job, nullptr, {.excluded_namespaces = {"other", job.ns}}));
  job.spec.managed_by = "kueue.x-k8s.io/multikueue";
  EXPECT_FALSE(IsOurs(job, nullptr, {}));
  job.spec.managed_by = api::kManagedByOperator;
  EXPECT_TRUE(IsOurs(job, nullptr, {}));
}

}  // namespace
}  // namespace ringmaster::job
