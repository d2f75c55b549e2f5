#pragma once

// Shared parts of the figures without nodes (B3, B4, backlog): jobs, an operator with the
// permissions of install.yaml, and an etcd and API server for it.

#include <memory>
#include <string>

#include "common/base/result.h"
#include "tests/integration/harness/control_plane.h"
#include "tests/integration/harness/operator_process.h"

namespace ringmaster::bench {

// Starts a control plane with install.yaml applied and a default profile for all namespaces.
Result<std::unique_ptr<testing::ControlPlane>> StartControlPlane();

// Returns when the operator is ready. `flags` are additional command-line flags.
Result<std::unique_ptr<testing::OperatorProcess>> StartOperator(
    const testing::ControlPlane& plane, const std::string& program, const std::string& identity,
    std::vector<std::string> flags = {});

std::string JobsPath(const std::string& ns);

Result<void> PostJob(testing::ApiClient& admin, const std::string& ns, const std::string& name,
                     int workers);

// Creates jobs "job-0" … in a namespace that has a FakeKubelet. Waits until all are Running.
Result<void> RunJobs(testing::ApiClient& admin, const std::string& ns, int jobs, int workers);

}  // namespace ringmaster::bench
