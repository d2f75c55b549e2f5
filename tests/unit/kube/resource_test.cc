#include "operator/kube/resource.h"

#include <gtest/gtest.h>

namespace ringmaster::kube {
namespace {

TEST(Resource, MakesPathsOfCoreAndGroupedKinds) {
  EXPECT_EQ(CollectionPath(kPods, "team-a"), "/api/v1/namespaces/team-a/pods");
  EXPECT_EQ(CollectionPath(kPods, ""), "/api/v1/pods");
  EXPECT_EQ(CollectionPath(kNodes, "ignored"), "/api/v1/nodes");
  EXPECT_EQ(ObjectPath(kTrainingJobs, "team-a", "digits", "status"),
            "/apis/ringmaster.dev/v1alpha1/namespaces/team-a/trainingjobs/digits/status");
  EXPECT_EQ(ObjectPath(kNodes, "", "n1"), "/api/v1/nodes/n1");
}

TEST(Resource, NamesItselfForPeople) {
  EXPECT_EQ(kPods.FullName(), "pods");
  EXPECT_EQ(kLeases.FullName(), "leases.coordination.k8s.io");
  EXPECT_EQ(kLeases.ApiVersion(), "coordination.k8s.io/v1");
  EXPECT_EQ(kPods.ApiVersion(), "v1");
}

TEST(ObjectKey, NamesTheNamespaceIfThereIsOne) {
  EXPECT_EQ(ObjectKey("team-a", "digits"), "team-a/digits");
  EXPECT_EQ(ObjectKey("", "node-1"), "node-1");
}

}  // namespace
}  // namespace ringmaster::kube
